//! Points in time, durations with their unit, time zones and business dates.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::Invalid;

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(i64);

/// 9999-12-30T22:00:00Z, the last instant that the calendar can show.
const LATEST_MS: i64 = 253_402_207_200_000;

impl UnixMillis {
    /// Times before 1970 and after 9999 are pulled to those ends: they cannot be meant.
    #[must_use]
    pub fn new(ms: i64) -> Self {
        Self(ms.clamp(0, LATEST_MS))
    }

    /// From seconds with a fraction, as a stream record has them; what is no number is 1970.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // saturates, and is clamped
    pub fn from_seconds(seconds: f64) -> Self {
        Self::new((seconds * 1_000.0) as i64)
    }

    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self::new(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this time; negative when it is the other way round.
    #[must_use]
    pub const fn since_ms(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }

    /// # Errors
    /// When the text is not an RFC 3339 time with an offset.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        let time = text.parse().ok().filter(|_: &Timestamp| is_rfc_3339(text));
        let time = time.ok_or_else(|| Invalid::new(field, "must be an RFC 3339 time"))?;
        Ok(Self::new(time.as_millisecond()))
    }

    fn timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::MAX)
    }
}

/// Whether it has this form. The parser reads more: hours alone, no separators, a zone behind the offset.
fn is_rfc_3339(text: &str) -> bool {
    let matches = |bytes: &[u8], form: &str| {
        let fits = |(byte, form): (&u8, u8)| match form {
            b'0' => byte.is_ascii_digit(),
            b'T' => b"Tt ".contains(byte),
            b'+' => b"+-".contains(byte),
            b'Z' => b"Zz".contains(byte),
            _ => *byte == form,
        };
        bytes.len() == form.len() && bytes.iter().zip(form.bytes()).all(fits)
    };
    let Some((time, rest)) = text.as_bytes().split_at_checked(19) else { return false };
    let fraction = rest.strip_prefix(b".").unwrap_or_default();
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let offset = if digits == 0 { rest } else { fraction.get(digits..).unwrap_or_default() };
    matches(time, "0000-00-00T00:00:00") && ["Z", "+00:00"].iter().any(|form| matches(offset, form))
}

impl std::fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.timestamp().fmt(f)
    }
}

impl Serialize for UnixMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UnixMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse("time", &text).map_err(D::Error::custom)
    }
}

/// An IANA time zone by name, such as `Europe/Berlin`. The zone data is part of the binary: a
/// function's image has none that could be relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl Zone {
    /// # Errors
    /// When no zone has this name.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let unknown = || Invalid::new("time_zone", "must be an IANA time zone name");
        let zone = TimeZone::get(name).map_err(|_| unknown())?;
        // "Etc/Unknown" parses but has no name to keep.
        zone.iana_name().ok_or_else(unknown)?;
        Ok(Self(zone))
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The date on the calendar of this zone at this instant: the day that a daily limit counts in.
    #[must_use]
    pub fn business_date(&self, at: UnixMillis) -> BusinessDate {
        BusinessDate(self.0.to_datetime(at.timestamp()).date())
    }
}

impl TryFrom<String> for Zone {
    type Error = Invalid;
    fn try_from(name: String) -> Result<Self, Invalid> {
        Self::parse(&name)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name().to_owned()
    }
}

/// A day on the activity's calendar, `2026-11-29`. Computed once, when the order is admitted, and
/// carried by the order from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BusinessDate(Date);

impl BusinessDate {
    /// # Errors
    /// When the text is not `YYYY-MM-DD`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        text.parse().map(Self).map_err(|_| Invalid::new("biz_date", "must be YYYY-MM-DD"))
    }
}

impl std::fmt::Display for BusinessDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(zone: &str, time: &str) -> String {
        Zone::parse(zone).unwrap().business_date(UnixMillis::parse("t", time).unwrap()).to_string()
    }

    #[test]
    fn the_business_date_is_the_zones_own() {
        assert_eq!(date("UTC", "2026-11-29T23:59:59.999Z"), "2026-11-29");
        assert_eq!(date("Europe/Berlin", "2026-11-29T23:00:00Z"), "2026-11-30");
        assert_eq!(date("America/Los_Angeles", "2026-11-30T07:59:59Z"), "2026-11-29");
        assert_eq!(date("Asia/Kathmandu", "2026-11-29T18:14:59.999Z"), "2026-11-29");
        assert_eq!(date("Asia/Kathmandu", "2026-11-29T18:15:00Z"), "2026-11-30");
        // The hour that Berlin lives twice is one day.
        assert_eq!(date("Europe/Berlin", "2026-10-25T00:30:00Z"), "2026-10-25");
        assert_eq!(date("Europe/Berlin", "2026-10-25T01:30:00Z"), "2026-10-25");
    }

    /// M13: where clocks change, also at midnight itself, the day ends once and begins once.
    #[test]
    fn f29_clocks_that_change_neither_repeat_nor_skip_a_day() {
        let around = |zone: &str, last: &str, first: &str, days: [&str; 2]| {
            assert_eq!([date(zone, last), date(zone, first)], days, "{zone}");
        };
        // A day of 23 hours, and one of 25.
        around("Europe/Berlin", "2026-03-28T22:59:59.999Z", "2026-03-28T23:00:00Z", ["2026-03-28", "2026-03-29"]);
        around("Europe/Berlin", "2026-03-29T21:59:59.999Z", "2026-03-29T22:00:00Z", ["2026-03-29", "2026-03-30"]);
        around("Europe/Berlin", "2026-10-25T22:59:59.999Z", "2026-10-25T23:00:00Z", ["2026-10-25", "2026-10-26"]);
        // Midnight does not exist: the day begins at one.
        around("America/Santiago", "2026-09-06T03:59:59.999Z", "2026-09-06T04:00:00Z", ["2026-09-05", "2026-09-06"]);
        around("Africa/Cairo", "2026-04-23T21:59:59.999Z", "2026-04-23T22:00:00Z", ["2026-04-23", "2026-04-24"]);
        // The hour before midnight comes twice, and is of the old day both times.
        around("America/Santiago", "2026-04-05T02:59:59.999Z", "2026-04-05T03:00:00Z", ["2026-04-04", "2026-04-04"]);
        around("America/Santiago", "2026-04-05T03:59:59.999Z", "2026-04-05T04:00:00Z", ["2026-04-04", "2026-04-05"]);
        // The hour after midnight comes twice, and is of the new day both times.
        around("America/Havana", "2026-11-01T04:59:59.999Z", "2026-11-01T05:00:00Z", ["2026-11-01", "2026-11-01"]);
        // Half an hour of summer time; quarters of an hour; both ends of the date line.
        around("Australia/Lord_Howe", "2026-10-03T13:29:59.999Z", "2026-10-03T13:30:00Z", ["2026-10-03", "2026-10-04"]);
        around("Pacific/Chatham", "2026-06-01T11:14:59.999Z", "2026-06-01T11:15:00Z", ["2026-06-01", "2026-06-02"]);
        around("Pacific/Kiritimati", "2026-06-01T09:59:59.999Z", "2026-06-01T10:00:00Z", ["2026-06-01", "2026-06-02"]);
        around("Pacific/Pago_Pago", "2026-06-01T10:59:59.999Z", "2026-06-01T11:00:00Z", ["2026-05-31", "2026-06-01"]);
    }

    /// In every zone there is, through a whole year: a daily limit begins anew 365 times and never goes back.
    #[test]
    fn the_business_date_only_moves_on_in_every_zone() {
        let begins = UnixMillis::parse("t", "2026-01-01T12:00:00Z").unwrap();
        let (mut zones, step_ms) = (0, 3 * 3_600_000);
        for zone in jiff::tz::db().available().filter_map(|name| Zone::parse(name.as_str()).ok()) {
            let mut last = zone.business_date(begins);
            let first = last;
            let mut days = 0;
            for step in 1..=365 * 8 {
                let today = zone.business_date(begins.plus_ms(step * step_ms));
                assert!(today >= last, "{}: {today} after {last}", zone.name());
                days += i32::from(today > last);
                last = today;
            }
            assert_eq!((days, last.0.since(first.0).unwrap().get_days()), (365, 365), "{}", zone.name());
            zones += 1;
        }
        assert!(zones > 300, "{zones}");
    }

    #[test]
    fn zones_and_times_are_parsed_or_refused() {
        assert!(Zone::parse("Mars/Olympus").is_err());
        assert!(Zone::parse("").is_err());
        for bad in [
            "",
            "2026-11-29",
            "2026-11-29T00:00:00",
            "yesterday",
            "2026-11-29T19Z",
            "2026-11-29T19:00Z",
            "20261129T190000Z",
            "+002026-11-29T19:00:00Z",
            "2026-11-29T19:00:00,5Z",
            "2026-11-29T19:00:00.Z",
            "2026-11-29T19:00:00+01",
            "2026-11-29T19:00:00+0100",
            "2026-11-29T19:00:00+01:00:00",
            "2026-11-29T19:00:00+01:00[Europe/Berlin]",
            "2026-11-29T19:00:00ZZ",
            "2026-11-29T24:00:00Z",
            "2026-02-29T19:00:00Z",
        ] {
            assert!(UnixMillis::parse("starts_at", bad).is_err(), "{bad}");
        }
        for (good, time) in [
            ("2026-11-29t19:00:00z", "2026-11-29T19:00:00Z"),
            ("2026-11-29 19:00:00.000Z", "2026-11-29T19:00:00Z"),
            ("2026-11-29T18:30:00-00:30", "2026-11-29T19:00:00Z"),
            ("2026-11-29T18:59:60.5Z", "2026-11-29T18:59:59.5Z"),
        ] {
            assert_eq!(UnixMillis::parse("t", good).unwrap().to_string(), time);
        }
        let time = UnixMillis::parse("t", "2026-11-29T10:00:00+02:00").unwrap();
        assert_eq!(time.to_string(), "2026-11-29T08:00:00Z");
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-11-29T08:00:00Z\"");
    }
}
