//! What an order that looks around knows of the other buckets.

use crate::{
    app::submission::Refusal,
    domain::{ids::Bucket, order::Placement, stock::StockItem},
    ports::Look,
};

/// What is known of the other buckets.
pub(super) struct Looks {
    pub seen: Vec<Look>,
    /// Whether some bucket could not be looked into, so that "sold out" is not certain.
    pub blind: bool,
}

impl Looks {
    pub fn update(&mut self, bucket: Bucket, change: impl FnOnce(&mut Look)) {
        if let Some(look) = self.seen.iter_mut().find(|look| look.bucket == bucket) {
            change(look);
        }
    }

    /// No more than the database has there: Redis may admit more than that.
    pub fn cap(&mut self, placement: &Placement, stock: &[StockItem]) {
        for look in &mut self.seen {
            for (line, free) in placement.lines.iter().zip(&mut look.free) {
                let item = stock.iter().find(|item| item.bucket == look.bucket && item.sku == line.sku);
                *free = (*free).min(item.map_or(0, |item| item.available));
            }
        }
    }

    /// Sold out, unless a bucket could not be looked into or only had no admissions left this second.
    pub fn refusal(&self) -> Refusal {
        if self.seen.iter().any(|look| look.limited && look.free.iter().any(|free| *free > 0)) {
            Refusal::Limited
        } else if self.blind {
            Refusal::Unavailable
        } else {
            Refusal::SoldOut
        }
    }
}
