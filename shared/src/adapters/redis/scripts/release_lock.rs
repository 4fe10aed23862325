//! Twin of `lua/release_lock.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys,
        script::{Script, script},
    },
    domain::lease::{LockName, LockOwner},
    ports::Still,
};

static SCRIPT: LazyLock<Script> = script!("release_lock");

pub(in crate::adapters::redis) fn call(name: &LockName, owner: &LockOwner) -> Call {
    Call::script(&SCRIPT, vec![keys::lock(name)], vec![owner.as_str().to_owned()])
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Still, BadReply> {
    match reply.outcome()? {
        ("released", _) => Ok(Still::Own),
        ("lost", _) => Ok(Still::Lost),
        _ => Err(BadReply::Unexpected),
    }
}
