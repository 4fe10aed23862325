//! Twin of `lua/renew_lock.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys,
        script::{Script, script},
    },
    domain::lease::{Lease, LockName, LockOwner},
    ports::Still,
};

static SCRIPT: LazyLock<Script> = script!("renew_lock");

pub(in crate::adapters::redis) fn call(name: &LockName, owner: &LockOwner, lease: Lease) -> Call {
    Call::script(&SCRIPT, vec![keys::lock(name)], vec![owner.as_str().to_owned(), lease.as_ms().to_string()])
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Still, BadReply> {
    match reply.outcome()? {
        ("renewed", _) => Ok(Still::Own),
        ("lost", _) => Ok(Still::Lost),
        _ => Err(BadReply::Unexpected),
    }
}
