//! One call to Redis and its reply, as plain data.

use redis::{Cmd, Value};

use super::script::Script;

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// On the way of an order: the configured deadline.
    Quick,
    /// Reads whole buckets, for repairs: a longer one.
    Slow,
}

#[derive(Debug)]
pub(super) enum Body {
    Script { script: &'static Script, keys: Vec<String>, args: Vec<String> },
    Command(Cmd),
}

/// A call that can be sent again as it is.
#[derive(Debug)]
pub(super) struct Call {
    /// What is being done, for the fault.
    pub operation: &'static str,
    /// Whether a second run has no second effect.
    pub repeatable: bool,
    pub pace: Pace,
    pub body: Body,
}

impl Call {
    pub fn script(script: &'static Script, keys: Vec<String>, args: Vec<String>) -> Self {
        Self {
            operation: script.name(),
            repeatable: true,
            pace: Pace::Quick,
            body: Body::Script { script, keys, args },
        }
    }

    pub fn command(operation: &'static str, command: Cmd) -> Self {
        Self { operation, repeatable: true, pace: Pace::Quick, body: Body::Command(command) }
    }

    /// The key that says where it goes: all keys of a call carry the same tag.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Script { keys, .. } => keys.first().map(String::as_bytes),
            Body::Command(command) => command.args_iter().nth(1).and_then(|argument| match argument {
                redis::Arg::Simple(key) => Some(key),
                _ => None,
            }),
        }
    }

    pub fn slow(self) -> Self {
        Self { pace: Pace::Slow, ..self }
    }

    pub fn once(self) -> Self {
        Self { repeatable: false, ..self }
    }
}

/// Why a reply gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadReply {
    /// The script found something that it cannot read, and wrote nothing.
    #[error("unreadable data in Redis: a person is needed")]
    BadData,
    #[error("unexpected reply from Redis")]
    Unexpected,
}

/// A reply, flattened to texts. `None` is Redis's nil.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply(Result<Vec<Option<String>>, BadReply>);

impl Reply {
    pub fn new(value: Value) -> Self {
        let mut texts = Vec::new();
        flatten(value, &mut texts);
        Self(Ok(texts))
    }

    /// A command met a key of another type. Scripts say so themselves.
    pub const fn unreadable() -> Self {
        Self(Err(BadReply::BadData))
    }

    pub fn items(&self) -> Result<&[Option<String>], BadReply> {
        self.0.as_deref().map_err(|bad| *bad)
    }

    /// A script's outcome and what follows it.
    pub fn outcome(&self) -> Result<(&str, Texts<'_>), BadReply> {
        let (tag, rest) = self.items()?.split_first().ok_or(BadReply::Unexpected)?;
        Ok((tag.as_deref().ok_or(BadReply::Unexpected)?, Texts(rest)))
    }
}

/// What follows an outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a>(&'a [Option<String>]);

impl<'a> Texts<'a> {
    pub fn texts(self) -> Result<Vec<&'a str>, BadReply> {
        self.0.iter().map(|text| text.as_deref().ok_or(BadReply::Unexpected)).collect()
    }

    pub fn parsed<T: std::str::FromStr>(self) -> Result<Vec<T>, BadReply> {
        self.texts()?.into_iter().map(|text| text.parse().map_err(|_| BadReply::Unexpected)).collect()
    }

    /// The only text that follows.
    pub fn one(self) -> Result<&'a str, BadReply> {
        match self.texts()?[..] {
            [text] => Ok(text),
            _ => Err(BadReply::Unexpected),
        }
    }

    /// The only number that follows.
    pub fn number<T: std::str::FromStr>(self) -> Result<T, BadReply> {
        self.one()?.parse().map_err(|_| BadReply::Unexpected)
    }
}

fn flatten(value: Value, texts: &mut Vec<Option<String>>) {
    // Data that is not UTF-8 cannot be ours: it is made readable here and refused where it is parsed.
    let lossy = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    match value {
        Value::Array(values) | Value::Set(values) => values.into_iter().for_each(|value| flatten(value, texts)),
        Value::Map(pairs) => pairs.into_iter().for_each(|(field, value)| {
            flatten(field, texts);
            flatten(value, texts);
        }),
        Value::BulkString(bytes) => texts.push(Some(lossy(bytes))),
        Value::SimpleString(text) => texts.push(Some(text)),
        Value::Int(number) => texts.push(Some(number.to_string())),
        Value::Okay => texts.push(Some("OK".to_owned())),
        _ => texts.push(None),
    }
}
