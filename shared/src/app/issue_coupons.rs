//! Issuing coupons: signed, not stored. Each is good for one order of its activity.

use std::sync::Arc;

use crate::{
    app::activity_cache::ActivityCache,
    domain::{
        coupon::Coupon,
        ids::ActivityId,
        money::{Currency, Money},
        token::TokenKeys,
    },
    ports::{ActivityStore, Fault},
};

/// New coupons, and the currency of what they take off.
#[derive(Debug)]
pub struct IssuedCoupons {
    pub coupons: Vec<Coupon>,
    pub currency: Currency,
}

pub struct IssueCoupons<S> {
    pub cache: ActivityCache<S>,
    pub keys: Arc<TokenKeys>,
}

impl<S: ActivityStore> IssueCoupons<S> {
    /// `None` when there is no such activity. Asking again issues others.
    ///
    /// # Errors
    /// When the database does not answer, or the system has no randomness.
    pub async fn run(&self, activity: &ActivityId, off: Money, count: u16) -> Result<Option<IssuedCoupons>, Fault> {
        const OPERATION: &str = "issue coupons";
        let Some(activity) = self.cache.get(activity).await? else { return Ok(None) };
        let issue = |_| {
            let mut id = [0; 8];
            getrandom::fill(&mut id).map_err(|error| Fault::not_applied(OPERATION, error.to_string()))?;
            let coupon = Coupon::issue(&self.keys, &activity.id, off, id);
            coupon.map_err(|invalid| Fault::not_applied(OPERATION, invalid.to_string()))
        };
        let coupons = (0..count).map(issue).collect::<Result<_, _>>()?;
        Ok(Some(IssuedCoupons { coupons, currency: activity.currency.clone() }))
    }
}
