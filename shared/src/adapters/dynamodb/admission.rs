//! The state of admission: one item, two parts that are written apart from each other.

use super::{
    Database,
    calls::{Written, bad_item},
    change::Change,
    codec::{decode, number, text},
    keys::Key,
};
use crate::{
    domain::{FORMAT, time::UnixMillis},
    ports::{Admission, AdmissionStore, Bypass, Fault, Limiting},
};

impl AdmissionStore for Database {
    async fn admission(&self) -> Result<Admission, Fault> {
        const OPERATION: &str = "read admission";
        let item = self.get(OPERATION, Key::admission()).await?;
        Ok(item.map(decode).transpose().map_err(bad_item(OPERATION))?.unwrap_or_default())
    }

    async fn note_bypass(&self, bypass: Bypass) -> Result<UnixMillis, Fault> {
        const OPERATION: &str = "note bypass";
        // Times of one form, so their order is that of the texts.
        let until = text(whole_second(bypass.until));
        let expression = "SET #bypassed_since = :at, #bypassed_until = :until, #format = :format";
        let first = Change::update(Key::admission(), expression)
            .only_if("attribute_not_exists(#bypassed_until) OR #bypassed_until < :covers")
            .value("at", text(bypass.at.to_string()))
            .value("covers", text(whole_second(bypass.covers)))
            .value("until", until.clone())
            .value("format", number(FORMAT));
        if let Written::Done(_) = self.write(OPERATION, &self.tables.table, first).await? {
            return Ok(bypass.at);
        }
        let longer = Change::update(Key::admission(), "SET #bypassed_until = :until")
            .only_if("#bypassed_until < :until")
            .value("until", until);
        // Refused: another process noted a later time.
        let _ = self.write(OPERATION, &self.tables.table, longer).await?;
        Ok(self.admission().await?.bypassed_since.unwrap_or(bypass.at))
    }

    async fn limit_admission(&self, limiting: &Limiting) -> Result<(), Fault> {
        let expression = "SET #limited_until = :until, #limited_by = :by, #reason = :reason, #backlog = :backlog, \
                          #format = :format";
        let change = Change::update(Key::admission(), expression)
            .value("until", text(limiting.until.to_string()))
            .value("by", text(limiting.by.as_str()))
            .value("reason", text(limiting.reason.as_str()))
            .value("backlog", number(limiting.backlog))
            .value("format", number(FORMAT));
        self.write("limit admission", &self.tables.table, change).await.map(drop)
    }
}

/// The next whole second: then all times have the same length, and their order is that of the texts.
fn whole_second(time: UnixMillis) -> String {
    UnixMillis::new((time.get() / 1_000 + 1) * 1_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_times_are_ordered_as_the_times() {
        let texts: Vec<String> =
            [1_999, 2_000, 2_001, 9_999, 10_000].map(|ms| whole_second(UnixMillis::new(ms))).into();
        assert!(texts.is_sorted(), "{texts:?}");
        assert_eq!(texts[0], "1970-01-01T00:00:02Z");
    }
}
