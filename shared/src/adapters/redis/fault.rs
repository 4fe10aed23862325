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

/// Whether an answered error shows a server that is well and only refused this call. Otherwise the
/// server, or the node behind the slot, is of no use at the moment: it loads, has no master, is a
/// replica, serves other slots, is stuck in a script, lets nobody in, or takes no writes. The last kind
/// still lets units be given back, but an order costs it a script for nothing.
pub(super) fn is_usable(error: &RedisError) -> bool {
    use ServerErrorKind as S;
    match error.kind() {
        ErrorKind::Server(kind) => {
            matches!(kind, S::ResponseError | S::ExecAbort | S::NoScript | S::CrossSlot | S::NotBusy | S::NoSub)
        }
        ErrorKind::Extension => !error.code().is_some_and(|code| REFUSED.contains(&code)),
        _ => false,
    }
}

/// Meaning of an error on the way to a connection: nothing was sent. Only a quick refusal is worth
/// another attempt; one that took the whole deadline would take it again.
pub(super) fn classify_connect(error: &RedisError) -> (Effect, Next) {
    let quick = error.kind() == ErrorKind::Io && !error.is_timeout();
    (Effect::None, if quick { Next::Again } else { Next::GiveUp })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn every_error_of_the_server() {
        let rows = [
            ("READONLY You can't write against a read only replica.", Effect::None, Next::Reconnect),
            ("MOVED 3999 127.0.0.1:6381", Effect::None, Next::Reconnect),
            ("ASK 3999 127.0.0.1:6381", Effect::None, Next::Again),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Effect::None, Next::Again),
            ("CLUSTERDOWN Hash slot not served", Effect::None, Next::Again),
            ("MASTERDOWN Link with MASTER is down", Effect::None, Next::Again),
            ("LOADING Redis is loading the dataset in memory", Effect::None, Next::Again),
            ("BUSY Redis is busy running a script.", Effect::None, Next::Again),
            ("NOSCRIPT No matching script.", Effect::None, Next::GiveUp),
            ("OOM command not allowed when used memory > 'maxmemory'.", Effect::None, Next::GiveUp),
            ("NOAUTH Authentication required.", Effect::None, Next::GiveUp),
            ("NOPERM this user has no permissions", Effect::None, Next::GiveUp),
            ("NOREPLICAS Not enough good replicas to write.", Effect::None, Next::GiveUp),
            ("MISCONF Redis is configured to save RDB snapshots", Effect::None, Next::GiveUp),
            ("CROSSSLOT Keys in request don't hash to the same slot", Effect::None, Next::GiveUp),
            // A script that was stopped half way.
            ("ERR user_script:12: attempt to index a nil value", Effect::Unknown, Next::GiveUp),
            ("WEIRD something new", Effect::Unknown, Next::GiveUp),
        ];
        for (line, effect, next) in rows {
            assert_eq!(classify(&answered(line), false), (effect, next), "{line}");
        }
    }

    #[test]
    fn a_server_that_only_refused_this_call_is_usable() {
        for line in [
            "NOSCRIPT No matching script.",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "ERR user_script:12: attempt to index a nil value",
            "WEIRD something new",
        ] {
            assert!(is_usable(&answered(line)), "{line}");
        }
        for line in [
            "READONLY You can't write against a read only replica.",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN Hash slot not served",
            "MASTERDOWN Link with MASTER is down",
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOAUTH Authentication required.",
            "NOPERM this user has no permissions",
            "NOREPLICAS Not enough good replicas to write.",
            "MISCONF Redis is configured to save RDB snapshots",
        ] {
            assert!(!is_usable(&answered(line)), "{line}");
        }
        assert!(!is_usable(&RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset))));
    }

    #[test]
    fn a_cluster_finds_the_new_node_itself() {
        for line in ["READONLY You can't write against a read only replica.", "MOVED 3999 127.0.0.1:6381"] {
            assert_eq!(classify(&answered(line), true), (Effect::None, Next::Again), "{line}");
        }
    }

    #[test]
    fn a_connection_that_broke_may_have_carried_the_call() {
        for kind in [std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::TimedOut]
        {
            let error = RedisError::from(std::io::Error::from(kind));
            assert_eq!(classify(&error, false), (Effect::Unknown, Next::Reconnect));
            assert_eq!(classify(&error, true), (Effect::Unknown, Next::Reconnect));
            assert_eq!(classify_connect(&error).0, Effect::None);
        }
    }
}
