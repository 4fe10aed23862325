//! Every metric, in one literal list. docs/operations.md tells of each; a test holds the two together.

/// What a metric's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Milliseconds,
    Percent,
}

impl Unit {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
            Self::Percent => "Percent",
        }
    }
}

/// Of which a metric is told: the whole deployment alone, or each activity as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Whole,
    Activities,
}

/// When a metric leaves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// When the invocation ends.
    AtOnce,
    /// With others of its kind: what a refusal costs must not be a line more.
    Held,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $name:ident: $unit:ident, $of:ident, $when:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[doc = $doc])* $name,)*
        }

        impl Metric {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in CloudWatch, dashboards and alarms.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }

            const fn of(self) -> Of {
                match self { $(Self::$name => Of::$of,)* }
            }

            const fn when(self) -> When {
                match self { $(Self::$name => When::$when,)* }
            }
        }
    };
}

metrics! {
    /// Order requests that were answered, whatever the answer.
    Orders: Count, Activities, Held;
    /// Committed, and told 201.
    OrdersCreated: Count, Activities, AtOnce;
    /// Repeats, told 200.
    OrdersReplayed: Count, Whole, AtOnce;
    /// Told 202: the outcome is unknown.
    OrdersConfirming: Count, Whole, AtOnce;
    OrdersSoldOut: Count, Whole, Held;
    OrdersLimitReached: Count, Whole, Held;
    OrdersFrozen: Count, Whole, Held;
    OrdersLimited: Count, Whole, Held;
    /// Refused for any other reason.
    OrdersRefused: Count, Whole, Held;
    /// Told `unavailable`.
    OrdersFailed: Count, Activities, AtOnce;
    /// One order request inside the function.
    OrderLatency: Milliseconds, Activities, Held;
    /// The home script's call, its way there and back included.
    AdmitScriptTime: Milliseconds, Whole, Held;
    /// The order transaction, with all its tries and pauses.
    TransactionTime: Milliseconds, Whole, AtOnce;
    /// Order transactions that were sent, each try one.
    TransactionTries: Count, Whole, AtOnce;
    /// Of them, those cancelled by a conflict or throttled.
    TransactionConflicts: Count, Whole, AtOnce;
    /// The buyer's guard in the database refused what the script had admitted.
    GuardConflicts: Count, Activities, AtOnce;
    /// Orders that went past Redis.
    PastRedis: Count, Whole, AtOnce;
    BreakerOpened: Count, Whole, AtOnce;
    RollBacksSent: Count, Whole, AtOnce;
    /// Roll-back messages that were settled.
    RollBacks: Count, Whole, AtOnce;
    /// Those that failed and come again.
    RollBacksFailed: Count, Whole, AtOnce;
    /// Messages in the roll-back queue, when last measured.
    RollBackBacklog: Count, Whole, AtOnce;
    /// 1 when a measurement found admission limited, otherwise 0.
    AdmissionLimited: Count, Whole, AtOnce;
    /// What a run of reconciliation found, of all kinds.
    Differences: Count, Activities, AtOnce;
    /// Orders that disagreed in a run, of the stock in the buckets that it looked at.
    Deviation: Percent, Activities, AtOnce;
    /// One run of reconciliation.
    ReconcileTime: Milliseconds, Whole, AtOnce;
    /// Calls that failed in it.
    ReconcileFaults: Count, Whole, AtOnce;
    /// Stock items with more live units than were put on sale.
    Oversold: Count, Whole, AtOnce;
    /// Orders that live and whose units Redis had given back.
    ReturnedWhileLive: Count, Whole, AtOnce;
    /// Counters that did not add up and were corrected.
    SumsCorrected: Count, Whole, AtOnce;
    /// Records and counters in Redis that cannot be read.
    BadData: Count, Whole, AtOnce;
    /// Audit rows that never came and were filled.
    AuditGaps: Count, Whole, AtOnce;
    /// Stock items that were changed behind the system's back.
    UntrackedChanges: Count, Whole, AtOnce;
    /// Stream records that cannot be read.
    DeadRecords: Count, Whole, AtOnce;
    /// Units of orders that were placed, or revived.
    SoldUnits: Count, Activities, AtOnce;
    /// Units of orders that ended.
    ReturnedUnits: Count, Activities, AtOnce;
    /// Acquiring a distributed lock.
    LockWait: Milliseconds, Whole, AtOnce;
    LocksLost: Count, Whole, AtOnce;
}

impl Metric {
    /// Whether it is told of each activity, beside the whole.
    #[must_use]
    pub fn is_by_activity(self) -> bool {
        self.of() == Of::Activities
    }

    /// Whether it may wait for others of its kind.
    #[must_use]
    pub fn may_wait(self) -> bool {
        self.when() == When::Held
    }
}
