//! The runner as it is used: a small sale, and a stack that is served and interrupted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn dev(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dev"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_small_sale_ends_with_status_0_and_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().to_str().unwrap();
    let ended = dev(&["sale", "--requests", "1500", "--seed", "3", "--report", report]).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{text}\n{errors}");
    for part in ["0 oversold", "0 unsold while asked", "0 doubled", "0 lost", "8 of 8 units", "Everything holds."] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = std::fs::read_to_string(directory.path().join("sale.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Everything holds."));
}

#[test]
fn a_small_sale_without_redis_in_its_way_holds_too() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().to_str().unwrap();
    let arguments = ["sale", "--requests", "1000", "--strategy", "cas", "--buckets", "4", "--latency-ms", "1"];
    let ended = dev(&arguments).args(["--report", report]).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{text}\n{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn options_that_make_no_sense_are_told_before_anything_starts() {
    let ended = dev(&["sale", "--requests", "1000", "--buyers", "5000"]).output().unwrap();
    assert!(!ended.status.success());
    assert!(String::from_utf8(ended.stderr).unwrap().contains("fewer --buyers, or more --requests"));
}

/// The lines that a served stack prints, by their first word.
fn printed(child: &mut Child, names: &[&str]) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    names
        .iter()
        .map(|name| {
            let line = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with(name)).unwrap();
            line.rsplit('/').next().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn an_interrupted_stack_leaves_nothing_behind() {
    for signal in ["INT", "TERM"] {
        let mut child = dev(&["serve", "--port", "0"]).spawn().unwrap();
        let addresses = printed(&mut child, &["HTTP API", "DynamoDB", "SQS", "Redis"]);
        let login = "{\"sub\":\"alice\"}";
        let mut stream = TcpStream::connect(&addresses[0]).unwrap();
        write!(stream, "POST /dev/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n").unwrap();
        write!(stream, "Content-Length: {}\r\n\r\n{login}", login.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("access_token"), "{answer}");
        for address in &addresses {
            assert!(TcpStream::connect(address).is_ok(), "{address}");
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let limit = Instant::now() + Duration::from_secs(20);
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() < limit => std::thread::sleep(Duration::from_millis(50)),
                None => panic!("it does not end"),
            }
        };
        assert!(status.success(), "{signal}: {status}");
        for address in &addresses {
            assert!(TcpStream::connect(address).is_err(), "{address} is still there");
        }
    }
}
