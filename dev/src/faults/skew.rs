//! The order and token functions with a clock that is not the machine's.

use std::sync::Arc;

use holdfast::domain::time::UnixMillis;
use holdfast::domain::token::TokenKeys;
use holdfast::lambda::{Telemetry, Wiring};
use holdfast::ports::{Clock, SystemClock};

use crate::functions::Functions;
use crate::wire::{self, http};

/// The system's clock and how far this process is ahead of it, in milliseconds, at each of its times.
#[derive(Clone, Copy)]
pub struct Skewed(pub fn(i64) -> i64);

impl Clock for Skewed {
    fn now(&self) -> UnixMillis {
        let now = SystemClock.now();
        now.plus_ms((self.0)(now.get()))
    }
}

/// The system's clock, so many milliseconds ahead.
#[derive(Clone, Copy)]
pub struct Ahead(pub i64);

impl Clock for Ahead {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(self.0)
    }
}

/// A process of the deployment with this clock.
#[must_use]
pub fn functions<C: Clock + Copy + 'static>(wiring: &Wiring, keys: &Arc<TokenKeys>, clock: C) -> Functions {
    Functions {
        issue_token: http(&Telemetry::default(), issue_token::handler_at(wiring.clone(), Arc::clone(keys), clock)),
        place_order: http(&Telemetry::default(), place_order::handler_at(wiring.clone(), Arc::clone(keys), clock)),
        ..wire::functions(wiring, keys)
    }
}
