//! What `template.yaml` must keep, whatever else is changed in it. That it can be deployed is shown by
//! `make validate` and `make rehearse`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod access;
mod operations;
mod read;
mod wiring;
