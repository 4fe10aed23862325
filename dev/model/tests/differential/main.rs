//! Random scripts of operations and faults, run on the reference and on the real thing through the
//! product's own adapters: the Lua on a real Redis, the expressions on the local DynamoDB. Outcomes
//! and states must be the same after every step. A script that tells them apart is shrunk, printed
//! as one line per step, and kept in `proptest-regressions/`, from where every run tries it first.
//!
//! `HOLDFAST_CASES` sets the number of scripts (of the gate on one server; the others follow in
//! proportion), `HOLDFAST_SEED` repeats a run: each run prints its own.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cast;
mod database;
mod gate;
mod limits;
mod run;

use run::Kind;

#[test]
fn scripts_on_one_redis_do_what_the_reference_does() {
    run::on_threads(Kind::Gate, gate::sequences);
}

#[test]
fn scripts_on_a_cluster_do_what_the_reference_does() {
    run::on_threads(Kind::Cluster, gate::sequences);
}

#[test]
fn scripts_at_once_end_as_in_some_order() {
    run::on_threads(Kind::GateAtOnce, gate::groups);
}

#[test]
fn the_database_does_what_the_reference_does() {
    run::on_threads(Kind::Database, database::sequences);
}

#[test]
fn transactions_at_once_end_as_in_some_order() {
    run::on_threads(Kind::DatabaseAtOnce, database::groups);
}

#[test]
fn the_mark_in_redis_and_the_guard_in_the_database_limit_alike() {
    run::on_threads(Kind::Limits, limits::sequences);
}

#[test]
fn placements_that_count_no_more_fill_the_guard_and_not_the_mark() {
    limits::dead_placements();
}
