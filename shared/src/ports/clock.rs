use crate::domain::time::UnixMillis;

/// Where time comes from. Tests set their own.
pub trait Clock: Send + Sync {
    fn now(&self) -> UnixMillis;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(jiff::Timestamp::now().as_millisecond())
    }
}
