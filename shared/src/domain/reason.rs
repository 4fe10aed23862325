//! Why an operator acts.

use super::Invalid;

/// Longest reason, in characters: it is kept with what it changed.
pub const REASON_MAX_CHARS: usize = 200;

/// 1 to 200 characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// # Errors
    /// When it is empty, too long or has control characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if (1..=REASON_MAX_CHARS).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("reason", "must be 1 to 200 characters without control characters"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
