//! What was measured, beside what is aimed for.

use std::time::Duration;

/// Parts of a sale whose rates are compared.
pub const TENTHS: usize = 10;
/// The tenths that the others are compared with: the first half, while every bucket is well filled.
const FIRST_TENTHS: usize = 5;

/// What a ratio should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// Told for comparison only.
    Nothing,
}

impl Aim {
    /// Whether this ratio is as it should be; `None` where nothing is aimed for.
    #[must_use]
    pub fn is_met(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(ratio <= most),
            Self::AtLeast(least) => Some(ratio >= least),
            Self::Nothing => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most:.2}"),
            Self::AtLeast(least) => format!(">= {least:.2}"),
            Self::Nothing => "-".to_owned(),
        }
    }
}

/// One ratio, measured once in each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    /// Never empty.
    ratios: Vec<f64>,
    pub aim: Aim,
}

impl Row {
    /// # Errors
    /// When there is no ratio, or one that is no number: nothing was measured then.
    pub fn new(name: &str, ratios: Vec<f64>, aim: Aim) -> Result<Self, String> {
        if ratios.is_empty() || ratios.iter().any(|ratio| !ratio.is_finite()) {
            return Err(format!("{name}: nothing to compare: {ratios:?}"));
        }
        Ok(Self { name: name.to_owned(), ratios, aim })
    }

    /// The median of the rounds.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        median(&self.ratios).unwrap_or(f64::NAN)
    }

    /// One line of the table.
    #[must_use]
    pub fn line(&self) -> String {
        let least = percentile(&self.ratios, 0.0).unwrap_or(f64::NAN);
        let most = percentile(&self.ratios, 100.0).unwrap_or(f64::NAN);
        let verdict = match self.aim.is_met(self.ratio()) {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let (ratio, aim, rounds) = (self.ratio(), self.aim.text(), self.ratios.len());
        let line =
            format!("  {:<66} {ratio:>6.2}  {least:>6.2} to {most:<6.2} {rounds:>2}  {aim:<8} {verdict}", self.name);
        line.trim_end().to_owned()
    }
}

/// What stands above the lines.
#[must_use]
pub fn heading() -> String {
    format!("  {:<66} {:>6}  {:<16} {:>2}  {}", "", "ratio", "of the rounds", "n", "aim")
}

/// The smallest value that at least so many per cent of the values do not exceed; `None` of no values.
#[must_use]
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "as many values as fit into memory for some seconds")]
    let rank = (percent / 100.0 * sorted.len() as f64).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the number of values")]
    let rank = (rank as usize).max(1);
    sorted.get(rank - 1).copied()
}

/// The middle value, or the mean of the two in the middle; `None` of no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = if sorted.len().is_multiple_of(2) { sorted[sorted.len() / 2 - 1] } else { upper };
    Some(f64::midpoint(lower, upper))
}

/// Units a second in each tenth of the stock, by when each unit was sold (since the start, in any order);
/// `None` of fewer than ten units, or where a tenth took no time.
#[must_use]
pub fn tenths(sold_at: &[Duration]) -> Option<[f64; TENTHS]> {
    let mut sorted = sold_at.to_vec();
    sorted.sort_unstable();
    let mut rates = [0.0; TENTHS];
    let (mut from, mut began) = (0, Duration::ZERO);
    for (tenth, rate) in rates.iter_mut().enumerate() {
        let to = sorted.len() * (tenth + 1) / TENTHS;
        let ended = *sorted.get(to.checked_sub(1)?)?;
        let units = u32::try_from(to - from).ok().filter(|units| *units > 0)?;
        let took = ended.saturating_sub(began);
        if took.is_zero() {
            return None;
        }
        *rate = f64::from(units) / took.as_secs_f64();
        (from, began) = (to, ended);
    }
    Some(rates)
}

/// Each tenth's rate as a part of the median of the first half's.
#[must_use]
pub fn beside_the_first(rates: &[f64; TENTHS]) -> [f64; TENTHS] {
    let first = median(&rates[..FIRST_TENTHS]).unwrap_or(f64::NAN);
    rates.map(|rate| rate / first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (percent, expected) in [(0.0, 1.0), (1.0, 1.0), (50.0, 50.0), (99.0, 99.0), (99.1, 100.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, percent), Some(expected), "{percent}");
        }
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 99.0), None);
        // Of few values the highest is the 99th percentile: one slow order shows.
        assert_eq!(percentile(&[1.0, 1.0, 9.0], 99.0), Some(9.0));
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])),
            (Some(2.0), Some(2.5), None)
        );
    }

    #[test]
    fn an_aim_is_met_up_to_its_bound_and_by_the_median() {
        assert_eq!(Aim::AtMost(1.2).is_met(1.2), Some(true));
        assert_eq!(Aim::AtMost(1.2).is_met(1.201), Some(false));
        assert_eq!(Aim::AtLeast(3.0).is_met(3.0), Some(true));
        assert_eq!(Aim::AtLeast(3.0).is_met(2.999), Some(false));
        assert_eq!(Aim::Nothing.is_met(0.0), None);
        assert_eq!(Aim::AtMost(1.2).is_met(f64::NAN), Some(false), "what is no number is not met");
        let line = |ratios: &[f64], aim| Row::new("a", ratios.to_vec(), aim).unwrap().line();
        let met = line(&[1.1, 9.0, 1.0], Aim::AtMost(1.2));
        assert!(met.ends_with("<= 1.20  met") && met.contains("1.10    1.00 to 9.00"), "{met}");
        assert!(line(&[1.3, 1.3, 1.0], Aim::AtMost(1.2)).ends_with("MISSED"));
        assert!(line(&[0.1], Aim::Nothing).ends_with('-'));
    }

    #[test]
    fn what_was_not_measured_is_no_row() {
        assert!(Row::new("a", Vec::new(), Aim::Nothing).is_err());
        assert!(Row::new("a", vec![1.0, f64::NAN], Aim::AtMost(1.0)).is_err());
        assert!(Row::new("a", vec![f64::INFINITY], Aim::AtLeast(1.0)).is_err());
    }

    #[test]
    fn slow_tenths_show_where_they_are() {
        // 100 units, one each 10 ms, but one each 20 ms in the last three tenths.
        let mut sold_at: Vec<Duration> = (1..=70).map(|unit| Duration::from_millis(unit * 10)).collect();
        sold_at.extend((1..=30).map(|unit| Duration::from_millis(700 + unit * 20)));
        sold_at.reverse();
        let rates = tenths(&sold_at).unwrap();
        for (tenth, rate) in rates.iter().enumerate() {
            let expected = if tenth >= 7 { 50.0 } else { 100.0 };
            assert!((rate - expected).abs() < 1e-9, "{tenth}: {rate}");
        }
        let beside = beside_the_first(&rates);
        assert!((beside[9] - 0.5).abs() < 1e-9 && (beside[0] - 1.0).abs() < 1e-9, "{beside:?}");
    }

    #[test]
    fn tenths_are_of_equal_size_and_need_ten_units_and_time() {
        let each_ms = |units| -> Vec<Duration> { (1..=units).map(Duration::from_millis).collect() };
        assert_eq!(tenths(&each_ms(9)), None);
        assert_eq!(tenths(&[]), None);
        assert_eq!(tenths(&[Duration::from_secs(1); 20]), None, "all at once has no rate");
        // 25 units: tenths of two and of three, the same rate in each.
        let rates = tenths(&each_ms(25)).unwrap();
        assert!(rates.iter().all(|rate| (rate - 1_000.0).abs() < 1e-6), "{rates:?}");
    }
}
