//! How much more than the stock Redis may admit, so that orders which drop out on their way leave no unit unsold.
//! The database stays exact: what is admitted too much is refused there.

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Thousandths of the stock: 1,000 to 1,100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdmissionRatio(u16);

const WHOLE: u16 = 1_000;
const MOST: u16 = 1_100;

impl Default for AdmissionRatio {
    fn default() -> Self {
        Self(WHOLE)
    }
}

impl AdmissionRatio {
    /// From 1 to 1.1, in steps of a thousandth.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(ratio: f64) -> Result<Self, Invalid> {
        let steps = (WHOLE..=MOST).map(Self);
        let same = |step: &Self| (step.get() - ratio).abs() < 1e-9;
        steps
            .into_iter()
            .find(same)
            .ok_or_else(|| Invalid::new("admission_ratio", "must be 1 to 1.1, with three decimals at most"))
    }

    #[must_use]
    pub fn get(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    #[must_use]
    pub const fn is_exact(self) -> bool {
        self.0 == WHOLE
    }

    /// Units that Redis may admit where the database has put so many on sale.
    #[must_use]
    pub fn admits(self, allotted: u64) -> u64 {
        allotted.saturating_mul(u64::from(self.0)) / u64::from(WHOLE)
    }

    /// Units above the stock among those that Redis may admit: the other way round, to a unit at most too many.
    #[must_use]
    pub fn surplus(self, admitted: u64) -> u64 {
        admitted - admitted.saturating_mul(u64::from(WHOLE)).div_ceil(u64::from(self.0)).min(admitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_one_to_one_point_one_in_thousandths() {
        for (ratio, thousandths) in [(1.0, 1_000), (1.001, 1_001), (1.05, 1_050), (1.1, 1_100)] {
            assert_eq!(AdmissionRatio::parse(ratio).unwrap(), AdmissionRatio(thousandths));
            assert!((AdmissionRatio(thousandths).get() - ratio).abs() < 1e-12);
        }
        for ratio in [0.0, 0.999, 1.000_5, 1.101, 1.2, -1.0, f64::NAN, f64::INFINITY] {
            assert!(AdmissionRatio::parse(ratio).is_err(), "{ratio}");
        }
    }

    #[test]
    fn the_surplus_is_what_is_admitted_above_the_stock() {
        for (thousandths, allotted, admitted) in
            [(1_000, 7, 7), (1_100, 9, 9), (1_100, 10, 11), (1_100, 1_000_000_000, 1_100_000_000), (1_050, 100, 105)]
        {
            let ratio = AdmissionRatio(thousandths);
            assert_eq!(ratio.admits(allotted), admitted);
            assert!(admitted - allotted - ratio.surplus(admitted) <= 1);
        }
        for allotted in 0..2_000 {
            let ratio = AdmissionRatio(1_100);
            let admitted = ratio.admits(allotted);
            assert!((admitted - allotted).abs_diff(ratio.surplus(admitted)) <= 1, "{allotted}");
            assert_eq!(AdmissionRatio::default().surplus(allotted), 0);
        }
    }
}
