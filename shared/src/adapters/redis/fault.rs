//! What an error of Redis means: whether the call may have been applied, and what to do next.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::ports::Effect;

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another attempt would meet the same.
    GiveUp,
    Again,
    /// The same, on a new connection.
    Reconnect,
}

/// Error codes that say "refused before anything ran" and that the client library does not know.
const REFUSED: [&str; 7] = ["BUSY", "OOM", "NOAUTH", "WRONGPASS", "MISCONF", "NOREPLICAS", "UNKILLABLE"];

/// Meaning of an error that came back for a call that was sent.
pub(super) fn classify(error: &RedisError, cluster: bool) -> (Effect, Next) {
    use ServerErrorKind as S;
    match error.kind() {
        // The node is a replica now or serves other slots. A cluster's connection finds the new one itself.
        ErrorKind::Server(S::ReadOnly | S::Moved) => {
            (Effect::None, if cluster { Next::Again } else { Next::Reconnect })
        }
        ErrorKind::Server(S::BusyLoading | S::ClusterDown | S::MasterDown | S::Ask | S::TryAgain)
        | ErrorKind::ClusterConnectionNotFound => (Effect::None, Next::Again),
        ErrorKind::Server(S::NoScript | S::NoPerm | S::CrossSlot)
        | ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported
        | ErrorKind::Client => (Effect::None, Next::GiveUp),
        ErrorKind::Extension => match error.code() {
            Some("BUSY") => (Effect::None, Next::Again),
            Some(code) if REFUSED.contains(&code) => (Effect::None, Next::GiveUp),
            _ => (Effect::Unknown, Next::GiveUp),
        },
        ErrorKind::Io | ErrorKind::Parse => (Effect::Unknown, Next::Reconnect),
        // A script that stopped half way, or something new.
        _ => (Effect::Unknown, Next::GiveUp),
    }
}

/// Meaning of an error on the way to a connection: nothing was sent. Only a quick refusal is worth
/// another attempt; one that took the whole deadline would take it again.
pub(super) fn classify_connect(error: &RedisError) -> (Effect, Next) {
    let quick = error.kind() == ErrorKind::Io && !error.is_timeout();
    (Effect::None, if quick { Next::Again } else { Next::GiveUp })
}
