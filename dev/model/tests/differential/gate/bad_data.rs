//! Data that cannot be read: which operation must complain of what, and write nothing.

use holdfast::adapters::redis::keys::BucketKeys;
use model::reference::{
    Buyer, Map, OrderId, Placement, Scope, Sku,
    gate::{Gate, Preheated, Record},
    scripts::Look,
};
use redis::cmd;

use super::{
    answer::{Answer, Moments},
    operation::{Operation, Spoil},
    server::{Dump, Server, Snapshot},
};
use crate::cast::{Cast, SKU_NAMES, real_sku};

const CONTROLS: [&str; 5] = ["", "x", "-1|2|3|4", "1.0|2|3|4", "|1|2|3"];
const ADMISSIONS: [&str; 5] = ["", "soon|1", "1", "1|", "1|-1"];
const COUNTERS: [&str; 8] =
    ["", "x|1|1|9|1", "1|2|1|9", "1|2|2|9|1", "1|2|1|9|1|", "1.5|0|1|9|1", "1|0x1|1|9|1", "1|2|1|-9|1"];
const GREAT: &str = "9007199254740993|0|1|9|1";
/// A field of a placement, and what a reader misses it for.
const READABLE: &str = "\"buyer\"";
const UNREADABLE: &str = "\"byer\"";

/// What was found to be spoilt: a key, or one field of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    BucketKey,
    OrdersKey,
    LedgerKey,
    Control,
    Admitted,
    Sku(Sku),
    Record(OrderId),
    Placement(OrderId),
    Mark(Scope, Buyer),
}

/// Something in the place of what belongs there, and how to put that back.
pub struct Planted {
    pub target: Target,
    key: String,
    put_back: PutBack,
}

enum PutBack {
    Key(Dump),
    Field { field: String, garbage: String, text: String },
}

/// What must come of an operation that meets it.
pub enum Verdict {
    BadData,
    /// It does not need what is spoilt.
    Undisturbed,
    /// It only reads, and leaves out what it cannot.
    Instead(Answer),
}

fn pick(texts: &[&str], which: u8) -> String {
    texts[usize::from(which) % texts.len()].to_owned()
}

/// Plants it, if what is to be spoilt is there.
pub async fn plant(
    server: &Server,
    cast: &Cast,
    keys: &BucketKeys,
    snapshot: &Snapshot,
    gate: &Gate,
    (what, then): (Spoil, &Operation),
) -> Option<Planted> {
    let key = match what {
        Spoil::BucketKey => Some((Target::BucketKey, &keys.bucket)),
        Spoil::OrdersKey => Some((Target::OrdersKey, &keys.orders)),
        Spoil::LedgerKey => Some((Target::LedgerKey, &keys.ledger)),
        _ => None,
    };
    if let Some((target, key)) = key {
        let dump = server.dump(key).await;
        server.del(key).await;
        server.raw::<()>(cmd("RPUSH").arg(key).arg("x")).await;
        return Some(Planted { target, key: key.clone(), put_back: PutBack::Key(dump) });
    }
    let in_bucket = matches!(what, Spoil::Control(_) | Spoil::Admitted(_) | Spoil::Sku(..) | Spoil::GreatSku(_));
    let (key, entries) =
        if in_bucket { (&keys.bucket, &snapshot.bucket.entries) } else { (&keys.orders, &snapshot.orders.entries) };
    let (target, field, garbage) = field(cast, gate, what, then)?;
    // What was written since the snapshot is only the number of admissions.
    let text = if target == Target::Admitted { server.hget(key, &field).await? } else { entries.get(&field)?.clone() };
    let garbage = garbage(&text);
    if garbage == text {
        return None;
    }
    server.hset(key, &field, &garbage).await;
    Some(Planted { target, key: key.clone(), put_back: PutBack::Field { field, garbage, text } })
}

type Edit = Box<dyn Fn(&str) -> String + Send>;

/// The field that is spoilt, and how.
fn field(cast: &Cast, gate: &Gate, what: Spoil, then: &Operation) -> Option<(Target, String, Edit)> {
    let becomes = |garbage: String| -> Edit { Box::new(move |_| garbage.clone()) };
    let any_record = || gate.records.keys().next();
    Some(match what {
        Spoil::BucketKey | Spoil::OrdersKey | Spoil::LedgerKey => return None,
        Spoil::Control(which) => (Target::Control, "@control".to_owned(), becomes(pick(&CONTROLS, which))),
        Spoil::Admitted(which) => (Target::Admitted, "@admitted".to_owned(), becomes(pick(&ADMISSIONS, which))),
        Spoil::Sku(sku, which) => {
            (Target::Sku(Sku(sku)), real_sku(Sku(sku)).to_string(), becomes(pick(&COUNTERS, which)))
        }
        // It can be read where nothing is reckoned with it.
        Spoil::GreatSku(_) if matches!(then, Operation::ReadBucket { .. }) => return None,
        Spoil::GreatSku(sku) => {
            (Target::Sku(Sku(sku)), SKU_NAMES[usize::from(sku)].to_owned(), becomes(GREAT.to_owned()))
        }
        Spoil::Record(which) => {
            let order = then.order().or_else(any_record)?;
            let edit = move |text: &str| match which % 6 {
                0 => String::new(),
                1 => "D".to_owned(),
                2 => text.replacen('1', "2", 1),
                3 => text.replacen("|D|", "|X|", 1).replacen("|R|", "|X|", 1),
                4 => text.replacen("|1|", "|3|", 1).replacen("|2|", "|3|", 1),
                _ => text.replacen('|', "", 1),
            };
            (Target::Record(order), cast.number(order).to_string(), Box::new(edit))
        }
        Spoil::Placement => {
            let order = then.order().or_else(any_record)?;
            let edit = |text: &str| text.replace(READABLE, UNREADABLE);
            (Target::Placement(order), cast.number(order).to_string(), Box::new(edit))
        }
        Spoil::Mark(which) => {
            let (scope, buyer) = mark_of(cast, gate, then)?;
            let number = cast.number(OrderId(0));
            let garbage = ["", "x", "x=1", &format!("{number}=1;"), &format!("{number}=x"), &format!("{number}1=1")];
            (Target::Mark(scope, buyer), cast.mark_field(scope, buyer), becomes(pick(&garbage, which)))
        }
    })
}

/// The first mark that the operation could need.
fn mark_of(cast: &Cast, gate: &Gate, then: &Operation) -> Option<(Scope, Buyer)> {
    let own = then.order().and_then(|order| gate.records.get(order)?.placement.clone());
    let placement = match (then, own) {
        // Of a restore sometimes the mark that it moves away from, sometimes the one that it moves to.
        (Operation::Restock { .. } | Operation::Undo { .. } | Operation::Restore { take: 1, .. }, Some(own)) => own,
        _ => match then.submission() {
            Some(submission) => cast.both(submission).reference.clone(),
            None => return gate.marks.keys().next(),
        },
    };
    let scope = placement.charges.first()?.0;
    gate.marks.get((scope, placement.buyer)).map(|_| (scope, placement.buyer))
}

impl Planted {
    /// Puts back what belongs there, unless something else was written meanwhile.
    pub async fn put_back(&self, server: &Server) {
        match &self.put_back {
            PutBack::Key(dump) => server.put_back(&self.key, dump).await,
            PutBack::Field { field, garbage, text } => {
                let Some(found) = server.hget(&self.key, field).await else { return };
                if found == *garbage {
                    server.hset(&self.key, field, text).await;
                } else if matches!(self.target, Target::Placement(_)) && found.contains(UNREADABLE) {
                    // A record that changes keeps its placement, whatever that says.
                    server.hset(&self.key, field, &found.replace(UNREADABLE, READABLE)).await;
                }
            }
        }
    }
}

/// The situation of a spoilt operation: the bucket before it, and what it would do if nothing were
/// spoilt.
pub struct Situation<'a> {
    pub cast: &'a Cast,
    pub before: &'a Gate,
    pub answer: &'a Answer,
    /// Whether it would leave an entry in the ledger.
    pub noted: bool,
    pub at: Moments,
}

impl Situation<'_> {
    fn record(&self, order: OrderId) -> Option<&Record> {
        self.before.records.get(order)
    }

    pub fn verdict(&self, then: &Operation, target: &Target) -> Verdict {
        let usable = self.before.usable();
        match target {
            // A sum reads it too: its last entry tells whether anything changed between two pages.
            Target::LedgerKey => return complain(self.noted || matches!(then, Operation::Sum { .. })),
            // Whoever does not need the bucket key, needs the other one.
            Target::BucketKey => {
                let unneeded =
                    matches!(then, Operation::Record { .. } | Operation::ListRecords { .. } | Operation::Marked { .. });
                return if let Operation::Look { .. } = then { self.blind(false, false) } else { complain(!unneeded) };
            }
            Target::OrdersKey => {
                return if let Operation::Look { .. } = then { self.blind(false, false) } else { complain(true) };
            }
            _ => {}
        }
        match then {
            Operation::Place { stale, .. } | Operation::Deduct { stale, .. } if usable => {
                let of_another = self
                    .before
                    .control
                    .is_some_and(|control| control.version != self.at.version(self.before.bucket.0, *stale));
                match target {
                    Target::Control => complain(true),
                    // Deducting, the configuration is looked at last.
                    Target::Admitted if matches!(then, Operation::Deduct { .. }) => complain(true),
                    _ if of_another => Verdict::Undisturbed,
                    Target::Admitted => complain(true),
                    Target::Sku(sku) => complain(self.names(then, *sku)),
                    Target::Mark(..) => complain(self.marks(then, target)),
                    Target::Record(order) => complain(then.order() == Some(*order)),
                    Target::Placement(_) => complain(self.is_replayed()),
                    _ => Verdict::Undisturbed,
                }
            }
            Operation::Look { .. } => self.look(then, target),
            Operation::Undo { .. } | Operation::Restock { .. } => self.give_back(then, target),
            Operation::Restore { .. } if usable => self.restore(then, target),
            Operation::SyncAllotment { allotments, .. } if usable => match target {
                Target::Sku(sku) => complain(allotments.iter().any(|it| it.sku == *sku)),
                _ => Verdict::Undisturbed,
            },
            Operation::SyncControl { .. } if usable => complain(*target == Target::Control),
            Operation::TooGreat { .. } if *self.answer != Answer::Preheated(Preheated::Already) && usable => {
                complain(true)
            }
            Operation::Sum { .. } if usable => complain(matches!(target, Target::Sku(_) | Target::Record(_))),
            Operation::ReadBucket { .. } => complain(matches!(target, Target::Control | Target::Sku(_))),
            Operation::Record { order, .. } => match target {
                Target::Record(of) | Target::Placement(of) => complain(of.0 == *order),
                _ => Verdict::Undisturbed,
            },
            Operation::Marked { .. } => complain(self.marks(then, target)),
            Operation::ListRecords { .. } => self.list(target),
            _ => Verdict::Undisturbed,
        }
    }

    fn is_replayed(&self) -> bool {
        matches!(self.answer, Answer::Placed(model::reference::scripts::Placed::Replayed(_)))
    }

    /// Whether the operation needs this SKU's counters: those that it names, and those of the record.
    fn names(&self, then: &Operation, sku: Sku) -> bool {
        let held = then.order().and_then(|order| self.record(order)).map(|record| &record.held);
        let held = held.is_some_and(|held| held.get(sku).is_some());
        match then {
            Operation::Place { of, .. } => self.cast.both(*of).reference.lines.iter().any(|(of, _)| *of == sku),
            Operation::Deduct { units, .. } => held || units.iter().any(|(of, _)| *of == sku.0),
            _ => held,
        }
    }

    /// Whether the operation needs this mark.
    fn marks(&self, then: &Operation, target: &Target) -> bool {
        let Target::Mark(scope, buyer) = target else { return false };
        let submission = then.submission().map(|submission| self.cast.both(submission).reference.clone());
        let own = then.order().and_then(|order| self.record(order)).and_then(|it| it.placement.clone());
        let counts = |placement: Option<std::sync::Arc<Placement>>| {
            placement.is_some_and(|placement| {
                placement.home == self.before.bucket
                    && placement.buyer == *buyer
                    && placement.charges.iter().any(|(of, _)| of == scope)
            })
        };
        match then {
            Operation::Restock { keep_mark: true, known, .. } => *known && counts(own) && !counts(submission),
            Operation::Restock { known, .. } => counts(own) || (*known && counts(submission)),
            Operation::Undo { .. } => counts(own),
            Operation::Restore { .. } => counts(own) || counts(submission),
            _ => counts(submission),
        }
    }

    fn give_back(&self, then: &Operation, target: &Target) -> Verdict {
        use model::reference::scripts::{Restocked, Undone};
        let done = matches!(
            self.answer,
            Answer::Undone(Undone::Done) | Answer::Restocked(Restocked::Done(_)) | Answer::BadData
        );
        let restock = matches!(then, Operation::Restock { .. });
        let undone = matches!(self.answer, Answer::Undone(Undone::Done) | Answer::BadData);
        match target {
            Target::Record(order) => complain(then.order() == Some(*order)),
            // An undo reads it only where it is not the one that its caller has.
            Target::Placement(order) => complain((restock || undone) && then.order() == Some(*order)),
            Target::Sku(sku) => {
                let deducted = then.order().and_then(|order| self.record(order)).is_some_and(Record::deducted);
                complain(done && deducted && self.before.usable() && self.names(then, *sku))
            }
            Target::Mark(..) => {
                let looked_at = match self.answer {
                    Answer::Undone(undone) => *undone == Undone::Done,
                    // Also a late one takes the mark, unless the record is of a later take.
                    Answer::Restocked(Restocked::Already) => self.is_returned_by(then),
                    _ => true,
                };
                complain(looked_at && self.marks(then, target))
            }
            _ => Verdict::Undisturbed,
        }
    }

    fn is_returned_by(&self, then: &Operation) -> bool {
        let Operation::Restock { of, take, .. } = then else { return false };
        self.record(OrderId(of.order)).is_some_and(|record| !record.deducted() && record.take.get() == *take)
    }

    fn restore(&self, then: &Operation, target: &Target) -> Verdict {
        let Operation::Restore { of, take, parts, .. } = then else { return Verdict::Undisturbed };
        if let Target::Record(order) = target {
            return complain(of.order == order.0);
        }
        let record = self.record(OrderId(of.order));
        if record.is_some_and(|record| (record.take.get(), !record.deducted()) > (*take, false)) {
            return Verdict::Undisturbed;
        }
        let placement = &self.cast.both(*of).reference;
        match target {
            Target::Sku(sku) => {
                let at_home = placement.home == self.before.bucket;
                let line = at_home && placement.lines.iter().any(|(of, _)| of == sku);
                let part = parts.iter().any(|part| part.bucket == self.before.bucket && part.sku == *sku);
                let held = record.is_some_and(|it| it.deducted() && it.held.get(*sku).is_some());
                complain(line || part || held)
            }
            Target::Mark(..) => complain(self.marks(then, target)),
            // It is not the one to be written, so it is read for its marks.
            Target::Placement(order) => complain(of.order == order.0 && placement.home == self.before.bucket),
            _ => Verdict::Undisturbed,
        }
    }

    /// A look at its bucket that finds nothing to offer.
    fn blind(&self, limited: bool, record: bool) -> Verdict {
        let Answer::Looks(looks) = self.answer else { return Verdict::Undisturbed };
        let mut looks = looks.clone();
        let here = &mut looks[usize::from(self.before.bucket.0)];
        *here =
            Look { free: Vec::new(), limited: limited && here.limited, record: here.record.take().filter(|_| record) };
        Verdict::Instead(Answer::Looks(looks))
    }

    fn look(&self, then: &Operation, target: &Target) -> Verdict {
        let named = |sku| {
            then.submission().is_some_and(|of| self.cast.both(of).reference.lines.iter().any(|(line, _)| *line == sku))
        };
        match target {
            Target::Control | Target::Admitted => self.blind(false, true),
            Target::Sku(sku) if named(*sku) => self.blind(true, true),
            Target::Record(order) | Target::Placement(order) if then.order() == Some(*order) => self.blind(true, false),
            _ => Verdict::Undisturbed,
        }
    }

    fn list(&self, target: &Target) -> Verdict {
        let Answer::Listed { mut records, mut marked } = self.answer.clone() else { return Verdict::Undisturbed };
        match target {
            Target::Record(order) | Target::Placement(order) => {
                for (_, record) in records.iter_mut().filter(|(of, _)| of == order) {
                    *record = None;
                }
            }
            Target::Mark(scope, buyer) => {
                let mut marks: Map<(Scope, Buyer), _> = self.before.marks.clone();
                marks.remove((*scope, *buyer));
                marked = Gate { marks, ..self.before.clone() }.marked_orders();
            }
            _ => {}
        }
        Verdict::Instead(Answer::Listed { records, marked })
    }
}

fn complain(needed: bool) -> Verdict {
    if needed { Verdict::BadData } else { Verdict::Undisturbed }
}
