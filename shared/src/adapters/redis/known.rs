//! What a caller knows of a record whose marks it is about to take away. A script cannot read a
//! placement, so it is told which marks there are, and of which placement they are; when the record has
//! another one by then, it changes nothing.

use super::scripts::{mark_fields, placement_text};
use crate::domain::{ids::Bucket, order::Placement, record::Record};

/// A record's placement as text, and the marks that it counts in. Neither where there is no record.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub placement: String,
    pub marks: Vec<String>,
}

impl Known {
    /// As a record would say that was written with this placement.
    pub fn of(placement: &Placement, bucket: Bucket) -> Self {
        Self { placement: placement_text(placement), marks: mark_fields(placement, bucket) }
    }

    /// As the text of a record says. `None` when it cannot be read.
    pub fn read(text: Option<&str>, bucket: Bucket) -> Option<Self> {
        let Some(text) = text else {
            return Some(Self::default());
        };
        let record = Record::parse(text).ok()?;
        let marks = record.placement.as_ref().map(|placement| mark_fields(placement, bucket));
        let placement = text.splitn(7, '|').nth(6).unwrap_or_default().to_owned();
        Some(Self { placement, marks: marks.unwrap_or_default() })
    }
}
