//! The proxy, before a server that answers each line with itself in capitals.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use servers::{Flow, Proxy, Tripwire, Weather};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// How long something is waited for that comes.
const SOON: Duration = Duration::from_secs(10);
/// How long something is waited for that must not come.
const NEVER: Duration = Duration::from_millis(100);

/// The server, and the lines that reached it.
async fn server() -> (SocketAddr, UnboundedReceiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, lines) = unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|length| length > 0) {
                    sender.send(line.trim_end().to_owned()).unwrap();
                    let _ = stream.write_all(line.to_uppercase().as_bytes()).await;
                    line.clear();
                }
            });
        }
    });
    (address, lines)
}

struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(proxy: &Proxy) -> Self {
        Self(BufReader::new(TcpStream::connect(proxy.address()).await.unwrap()))
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    }

    async fn hears_nothing(&mut self) -> bool {
        timeout(NEVER, self.hear()).await.is_err()
    }

    /// Whether the connection is over.
    async fn is_cut(&mut self) -> bool {
        let heard = timeout(SOON, self.hear()).await.unwrap();
        heard.map_or(true, |line| line.is_empty())
    }
}

async fn heard(client: &mut Client) -> String {
    timeout(SOON, client.hear()).await.unwrap().unwrap()
}

async fn arrived(lines: &mut UnboundedReceiver<String>) -> String {
    timeout(SOON, lines.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn good_weather_changes_nothing() {
    let (address, _lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::connect(&proxy).await;
    for _ in 0..3 {
        client.say("hello\n").await;
        assert_eq!(heard(&mut client).await, "HELLO");
    }
    assert_eq!(proxy.counts().connections, 1);
}

#[tokio::test]
async fn what_is_held_arrives_later_and_what_is_delayed_too() {
    let (address, mut lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::connect(&proxy).await;
    proxy.set(Weather { requests: Flow::Hold, ..Weather::default() });
    client.say("hello\n").await;
    assert!(client.hears_nothing().await);
    assert!(lines.is_empty());
    proxy.set(Weather { delay: NEVER, ..Weather::default() });
    assert_eq!(heard(&mut client).await, "HELLO");
    assert_eq!(arrived(&mut lines).await, "hello");
    assert_eq!((proxy.counts().held, proxy.counts().delayed), (1, 1));
}

#[tokio::test]
async fn a_reply_that_is_thrown_away_is_applied_and_its_connection_stays_silent() {
    let (address, mut lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::connect(&proxy).await;
    proxy.set(Weather { replies: Flow::Swallow, ..Weather::default() });
    client.say("one\n").await;
    assert_eq!(arrived(&mut lines).await, "one");
    assert!(client.hears_nothing().await);
    proxy.set(Weather::default());
    client.say("two\n").await;
    assert_eq!(arrived(&mut lines).await, "two");
    assert!(client.hears_nothing().await, "nothing goes on behind a hole");
    let mut other = Client::connect(&proxy).await;
    other.say("three\n").await;
    assert_eq!(heard(&mut other).await, "THREE");
    assert!(proxy.counts().replies_lost >= 1);
}

#[tokio::test]
async fn a_request_that_is_thrown_away_never_arrives() {
    let (address, mut lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::connect(&proxy).await;
    proxy.set(Weather { requests: Flow::Swallow, ..Weather::default() });
    client.say("one\n").await;
    assert!(client.hears_nothing().await);
    proxy.set(Weather::default());
    Client::connect(&proxy).await.say("two\n").await;
    assert_eq!(arrived(&mut lines).await, "two");
    assert_eq!(proxy.counts().requests_lost, 1);
}

#[tokio::test]
async fn connections_are_cut_refused_and_sent_elsewhere() {
    let (address, _lines) = server().await;
    let (elsewhere, mut lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    let mut client = Client::connect(&proxy).await;
    client.say("hello\n").await;
    heard(&mut client).await;
    proxy.cut();
    assert!(client.is_cut().await);
    proxy.set(Weather { refuse: true, ..Weather::default() });
    assert!(Client::connect(&proxy).await.is_cut().await);
    proxy.set(Weather::default());
    proxy.redirect(elsewhere);
    let mut other = Client::connect(&proxy).await;
    other.say("there\n").await;
    assert_eq!(heard(&mut other).await, "THERE");
    assert_eq!(arrived(&mut lines).await, "there");
    assert_eq!((proxy.counts().cut, proxy.counts().refused), (1, 1));
    proxy.reset_counts();
    assert_eq!(proxy.counts(), servers::ProxyCounts::default());
}

#[tokio::test]
async fn a_tripwire_stops_one_request_before_or_after_its_effect() {
    for applied in [false, true] {
        let (address, mut lines) = server().await;
        let proxy = Proxy::start(address).await.unwrap();
        let mut client = Client::connect(&proxy).await;
        proxy.trip(Tripwire { pattern: b"wire".to_vec(), skip: 1, applied });
        client.say("wire\n").await;
        assert_eq!(heard(&mut client).await, "WIRE");
        assert_eq!(arrived(&mut lines).await, "wire");
        // Across two chunks.
        client.say("a wi").await;
        tokio::time::sleep(NEVER).await;
        client.say("re\n").await;
        timeout(SOON, proxy.tripped()).await.unwrap();
        assert!(client.hears_nothing().await);
        if applied {
            assert_eq!(arrived(&mut lines).await, "a wire");
        } else {
            assert!(lines.is_empty());
        }
        let mut other = Client::connect(&proxy).await;
        other.say("wire\n").await;
        assert_eq!(heard(&mut other).await, "WIRE", "it strikes once");
    }
}

#[tokio::test]
async fn bytes_are_replaced_by_as_many_others() {
    let (address, mut lines) = server().await;
    let proxy = Proxy::start(address).await.unwrap();
    assert!(proxy.rewrite(b"one".to_vec(), b"three".to_vec()).is_err());
    proxy.rewrite(b"one".to_vec(), b"two".to_vec()).unwrap();
    let mut client = Client::connect(&proxy).await;
    client.say("one and one\n").await;
    assert_eq!(heard(&mut client).await, "TWO AND TWO");
    assert_eq!(arrived(&mut lines).await, "two and two");
    assert_eq!(proxy.counts().rewritten, 2);
}
