//! How many tokens a buyer may take: [`TokenGate`] on Redis.

use super::{Gate, scripts::count_token};
use crate::{
    domain::ids::{ActivityId, Bucket, BuyerId},
    ports::{Fault, TokenGate},
};

impl TokenGate for Gate {
    async fn allow_token(
        &self,
        activity: &ActivityId,
        home: Bucket,
        buyer: &BuyerId,
        max_per_minute: u32,
    ) -> Result<Result<(), u32>, Fault> {
        self.ask(count_token::call(activity, home, buyer, max_per_minute), count_token::parse).await
    }
}
