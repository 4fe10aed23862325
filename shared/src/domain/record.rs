//! The order record in Redis: what one bucket holds for one order. Its rank only rises, and stock
//! moves by held(old) − held(new), so whatever repeats or comes late has no second effect.

use super::{
    FORMAT, Invalid,
    cart::LinesHash,
    ids::Sku,
    order::{Placement, Take},
    readable,
    time::UnixMillis,
};

/// Whether the bucket's stock is with the order or back in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `D`: deducted.
    Deducted,
    /// `R`: given back.
    Returned,
}

/// absent < D1 < R1 < D2 < R2, as 0 to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u8);

impl Rank {
    pub const ABSENT: Self = Self(0);

    #[must_use]
    pub const fn of(take: Take, side: Side) -> Self {
        Self(take.get() * 2 - matches!(side, Side::Deducted) as u8)
    }
}

/// One record. Text form, `|` between fields, the free one last:
/// `format|D or R|take|written at (ms)|lines hash|sku=units,…|placement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub take: Take,
    pub side: Side,
    /// When the record was first written, by Redis's clock: what the grace of a repair counts from.
    pub at: UnixMillis,
    /// `None` when the record was written by a restock that found none.
    pub lines_hash: Option<LinesHash>,
    /// Units per SKU taken in this bucket (given back again when the side is R). Zero units of every
    /// line in the home record of an order that was filled elsewhere.
    pub held: Vec<(Sku, u32)>,
    /// The submission; absent where the record was written by a restock that found none.
    pub placement: Option<Placement>,
}

impl Record {
    #[must_use]
    pub const fn rank(&self) -> Rank {
        Rank::of(self.take, self.side)
    }

    /// Units of this SKU that the order holds in this bucket now.
    #[must_use]
    pub fn holds(&self, sku: &Sku) -> u32 {
        match self.side {
            Side::Returned => 0,
            Side::Deducted => self.held.iter().find(|(held, _)| held == sku).map_or(0, |(_, units)| *units),
        }
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// When a field is missing or malformed, or the format is one that this code does not know.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bad = |rule: &str| Invalid::new("record", rule);
        let fields: Vec<&str> = text.splitn(7, '|').collect();
        let [format, side, take, at, hash, held, placement] = fields[..] else {
            return Err(bad("must have seven fields"));
        };
        if !format.parse().is_ok_and(readable) {
            return Err(bad("has an unknown format"));
        }
        let side = match side {
            "D" => Side::Deducted,
            "R" => Side::Returned,
            _ => return Err(bad("side must be D or R")),
        };
        let take = take.parse().ok().and_then(Take::from_u8).ok_or_else(|| bad("take must be 1 or 2"))?;
        let at = at.parse().map(UnixMillis::new).map_err(|_| bad("time must be milliseconds"))?;
        let lines_hash = (!hash.is_empty()).then(|| LinesHash::parse(hash)).transpose()?;
        let placement = (!placement.is_empty())
            .then(|| serde_json::from_str(placement).map_err(|_| bad("placement is malformed")))
            .transpose()?;
        Ok(Self { take, side, at, lines_hash, held: parse_held(held)?, placement })
    }
}

/// `sku=units,…`, as the scripts read it.
#[must_use]
pub fn format_held(held: &[(Sku, u32)]) -> String {
    held.iter().map(|(sku, units)| format!("{sku}={units}")).collect::<Vec<_>>().join(",")
}

fn parse_held(text: &str) -> Result<Vec<(Sku, u32)>, Invalid> {
    let bad = || Invalid::new("record", "held units must be sku=units");
    text.split_terminator(',')
        .map(|pair| {
            let (sku, units) = pair.split_once('=').ok_or_else(bad)?;
            Ok((Sku::parse(sku)?, units.parse().map_err(|_| bad())?))
        })
        .collect()
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = if self.side == Side::Deducted { "D" } else { "R" };
        let hash = self.lines_hash.as_ref().map_or("", LinesHash::as_str);
        let held = format_held(&self.held);
        write!(f, "{FORMAT}|{side}|{}|{}|{hash}|{held}|", self.take.get(), self.at.get())?;
        match &self.placement {
            None => Ok(()),
            Some(placement) => f.write_str(&serde_json::to_string(placement).map_err(|_| std::fmt::Error)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_rise_from_absent_to_the_second_return() {
        let (one, two) = (Take::FIRST, Take::SECOND);
        let ranks = [
            Rank::ABSENT,
            Rank::of(one, Side::Deducted),
            Rank::of(one, Side::Returned),
            Rank::of(two, Side::Deducted),
            Rank::of(two, Side::Returned),
        ];
        assert!(ranks.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn records_read_back_as_written() {
        let hash = "0123456789abcdef0123456789abcdef";
        for text in [format!("1|D|1|1000|{hash}|a=2,b=1|"), format!("1|R|2|1000|{hash}||"), "1|R|1|5|||".to_owned()] {
            assert_eq!(Record::parse(&text).unwrap().to_string(), text);
        }
        let held = Record::parse(&format!("1|R|1|1000|{hash}|a=2|")).unwrap();
        assert_eq!(held.holds(&Sku::parse("a").unwrap()), 0, "given back is not held");
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        for bad in [
            "",
            "1",
            "1|D|1|1000||",
            "2|D|1|1000||a=1|",
            "0|D|1|1||a=1|",
            "1|X|1|1||a=1|",
            "1|D|3|1||a=1|",
            "1|D|0|1||a=1|",
            "1|D|1|x||a=1|",
            "1|D|1|1|zz|a=1|",
            "1|D|1|1||a|",
            "1|D|1|1||a=-1|",
            "1|D|1|1||a=1|{",
        ] {
            assert!(Record::parse(bad).is_err(), "{bad}");
        }
    }
}
