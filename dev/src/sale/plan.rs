//! Who does what, when: the same for the same seed and shape.

use std::collections::BTreeMap;
use std::time::Duration;

use super::garbage::Garbage;
use super::opening::PRICES;
use super::shape::Shape;

/// The SKUs of the sale: the main one and small ones.
pub static SKUS: [&str; 7] = ["phone", "case", "pin", "cable", "stand", "mug", "cap"];
/// Length of a slot.
pub const SLOT: Duration = Duration::from_millis(100);
/// Requests of a slot at a peak, and between peaks.
const PEAK: u64 = 470;
const BETWEEN: u64 = 300;
/// The first burst: slots at the peak from the start on.
const BURST_SLOTS: u64 = 20;
/// Afterwards, of every so many slots the first few are peaks.
const CYCLE_SLOTS: u64 = 10;
const PEAK_SLOTS: u64 = 3;
/// Buyers in a hundred who come with the first burst.
const BURST_PERCENT: u64 = 20;
/// Buyers in a thousand who want something else than a phone alone.
const WANTS_PER_MILLE: [(Want, u64); 6] = [
    (Want::PHONE_AND_CASE, 25),
    (Want::CASE, 10),
    (Want::PIN, 5),
    (Want::THREE, 8),
    (Want::FIVE, 4),
    (Want(&["mug", "cap"]), 6),
];
/// Buyers in twenty who have a coupon, and how many coupons there are: several buyers have the same one.
const COUPON_BUYERS: u32 = 2;
pub const COUPONS: u16 = 1_000;
/// What a coupon takes off, in minor units: more than the cheapest SKU costs.
pub const DISCOUNT: u64 = 700;

/// What a buyer wants, one unit of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Want(&'static [&'static str]);

impl Want {
    pub const PHONE: Self = Self(&["phone"]);
    pub const PHONE_AND_CASE: Self = Self(&["phone", "case"]);
    pub const CASE: Self = Self(&["case"]);
    pub const PIN: Self = Self(&["pin"]);
    pub const THREE: Self = Self(&["phone", "cable", "stand"]);
    pub const FIVE: Self = Self(&["phone", "cable", "stand", "mug", "cap"]);

    /// One SKU alone.
    #[must_use]
    pub fn only(index: usize) -> Self {
        Self(&SKUS[index..=index])
    }

    #[must_use]
    pub const fn skus(self) -> &'static [&'static str] {
        self.0
    }

    /// What it costs, in minor units.
    #[must_use]
    pub fn total(self) -> u64 {
        let price = |sku: &&str| SKUS.iter().position(|of| of == sku).map_or(0, |index| PRICES[index]);
        self.skus().iter().map(price).sum()
    }

    /// The lines of the order, one unit each.
    #[must_use]
    pub fn lines(self) -> BTreeMap<String, u32> {
        self.skus().iter().map(|sku| ((*sku).to_owned(), 1)).collect()
    }
}

/// What a submission asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub buyer: u32,
    pub want: Want,
    /// Which of the sale's coupons it brings.
    pub coupon: Option<u16>,
}

impl Ask {
    #[must_use]
    pub const fn plain(buyer: u32, want: Want) -> Self {
        Self { buyer, want, coupon: None }
    }

    /// With the coupon that this buyer has, if any.
    #[must_use]
    pub fn first(buyer: u32, want: Want) -> Self {
        let mine = u16::try_from(buyer / 20 % u32::from(COUPONS)).ok();
        Self { coupon: mine.filter(|_| buyer % 20 < COUPON_BUYERS), ..Self::plain(buyer, want) }
    }

    /// What is to be paid for it, in minor units.
    #[must_use]
    pub fn total(self) -> u64 {
        self.want.total().saturating_sub(if self.coupon.is_some() { DISCOUNT } else { 0 })
    }
}

/// What is peculiar about an order's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quirk {
    None,
    /// The same token again so many times, after the answer.
    Replay(u16),
    /// A second order with a second token at the same time.
    DoubleClick,
    /// The client hangs up before the reply and sends the same token again later.
    LostReply,
}

/// One thing that somebody does: a few requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visit {
    Order {
        buyer: u32,
        want: Want,
        quirk: Quirk,
    },
    /// The public page.
    SeeActivity,
    /// A buyer looks at an order, or at the list where there is none yet.
    SeeOrder {
        buyer: u32,
    },
    SeeOrders {
        buyer: u32,
    },
    Garbage(Garbage, u32),
}

impl Visit {
    /// Requests of this visit when nothing asks it to come back.
    #[must_use]
    pub fn requests(&self) -> u64 {
        match self {
            Self::Order { quirk, .. } => match quirk {
                Quirk::None => 2,
                Quirk::Replay(times) => 2 + u64::from(*times),
                Quirk::DoubleClick => 4,
                Quirk::LostReply => 3,
            },
            _ => 1,
        }
    }
}

/// All visits in the order in which they begin, with the slot of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub visits: Vec<(u32, Visit)>,
}

impl Plan {
    /// The plan of this shape and seed.
    #[must_use]
    pub fn new(shape: &Shape, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut orders = orders(shape, &mut random).into_iter();
        let burst = usize::try_from(shape.buyers * BURST_PERCENT / 100).unwrap_or(0);
        let mut sequence: Vec<Visit> = orders.by_ref().take(burst).collect();
        let known = sequence.clone();
        let mut place = 0;
        sequence.extend(second_wave(shape, &mut orders, &mut random, |random| buyer_of(&known, &mut place, random)));
        sequence.extend(orders);
        Self { visits: in_slots(scatter(sequence, garbage(shape, &mut random), &mut random)) }
    }
}

/// A buyer who has come before: mostly those of the burst, one after the other.
fn buyer_of(known: &[Visit], place: &mut usize, random: &mut fastrand::Rng) -> u32 {
    *place += 1 + random.usize(..3);
    match known.get(*place % known.len().max(1)) {
        Some(Visit::Order { buyer, .. }) => *buyer,
        _ => 0,
    }
}

/// One visit per buyer, in random order.
fn orders(shape: &Shape, random: &mut fastrand::Rng) -> Vec<Visit> {
    let mut buyers: Vec<u32> = (0..u32::try_from(shape.buyers).unwrap_or(u32::MAX)).collect();
    random.shuffle(&mut buyers);
    let quirks = quirks(shape, random);
    buyers.into_iter().zip(quirks).map(|(buyer, quirk)| Visit::Order { buyer, want: want(random), quirk }).collect()
}

/// As many of each quirk as the shape says, in random order.
fn quirks(shape: &Shape, random: &mut fastrand::Rng) -> Vec<Quirk> {
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let plain = count(shape.buyers - shape.double_clicks - shape.lost_replies);
    // Where there are more replays than buyers for them, some replay several times.
    let (each, more) = (shape.replays / plain.max(1) as u64, count(shape.replays) % plain.max(1));
    let replays = |index: usize| match u16::try_from(each).unwrap_or(u16::MAX) + u16::from(index < more) {
        0 => Quirk::None,
        times => Quirk::Replay(times),
    };
    let mut quirks = vec![Quirk::DoubleClick; count(shape.double_clicks)];
    quirks.extend(vec![Quirk::LostReply; count(shape.lost_replies)]);
    quirks.extend((0..plain).map(replays));
    random.shuffle(&mut quirks);
    quirks
}

fn want(random: &mut fastrand::Rng) -> Want {
    let mut roll = random.u64(..1_000);
    for (want, per_mille) in WANTS_PER_MILLE {
        match roll.checked_sub(per_mille) {
            None => return want,
            Some(rest) => roll = rest,
        }
    }
    Want::PHONE
}

/// Queries among orders, 2.3 to one, until there are no more queries.
fn second_wave(
    shape: &Shape,
    orders: &mut impl Iterator<Item = Visit>,
    random: &mut fastrand::Rng,
    mut buyer: impl FnMut(&mut fastrand::Rng) -> u32,
) -> Vec<Visit> {
    let mut wave = Vec::new();
    for index in 0..shape.queries {
        // Ten orders for each 23 queries.
        if (index + 1) * 10 / 23 > index * 10 / 23 {
            wave.extend(orders.next());
        }
        wave.push(match random.u32(..10) {
            0..4 => Visit::SeeActivity,
            4..8 => Visit::SeeOrder { buyer: buyer(random) },
            _ => Visit::SeeOrders { buyer: buyer(random) },
        });
    }
    wave
}

fn garbage(shape: &Shape, random: &mut fastrand::Rng) -> Vec<Visit> {
    (0..shape.garbage)
        .map(|index| {
            let kind = Garbage::ALL[usize::try_from(index).unwrap_or(0) % Garbage::ALL.len()];
            Visit::Garbage(kind, random.u32(..))
        })
        .collect()
}

/// Garbage at random places; the others keep their order.
fn scatter(sequence: Vec<Visit>, garbage: Vec<Visit>, random: &mut fastrand::Rng) -> Vec<Visit> {
    let mut places: Vec<usize> = garbage.iter().map(|_| random.usize(..=sequence.len())).collect();
    places.sort_unstable();
    let mut all = Vec::with_capacity(sequence.len() + garbage.len());
    let mut garbage = places.into_iter().zip(garbage).peekable();
    for (index, visit) in sequence.into_iter().enumerate() {
        while let Some((_, scrap)) = garbage.next_if(|(place, _)| *place <= index) {
            all.push(scrap);
        }
        all.push(visit);
    }
    all.extend(garbage.map(|(_, scrap)| scrap));
    all
}

fn in_slots(sequence: Vec<Visit>) -> Vec<(u32, Visit)> {
    let (mut slot, mut used) = (0, 0);
    sequence
        .into_iter()
        .map(|visit| {
            if used >= room(slot) {
                slot += 1;
                used = 0;
            }
            used += visit.requests();
            (u32::try_from(slot).unwrap_or(u32::MAX), visit)
        })
        .collect()
}

const fn room(slot: u64) -> u64 {
    if slot < BURST_SLOTS || slot % CYCLE_SLOTS < PEAK_SLOTS { PEAK } else { BETWEEN }
}
