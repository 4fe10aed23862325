//! `POST /v1/admin/activities/{activity}/coupons`: here because here are the keys that sign.

use holdfast::{
    adapters::dynamodb::Database,
    app::issue_coupons::IssueCoupons,
    domain::coupon::{COUPONS_MAX, CouponCode, discount},
    lambda::{
        http::{self, Role},
        problem::Problem,
    },
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use serde_json::json;

pub struct Coupons(pub IssueCoupons<Database>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CouponsRequest {
    count: u16,
    /// Minor units.
    discount: u64,
}

impl Coupons {
    pub async fn issue(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let activity = http::activity(request)?;
        let CouponsRequest { count, discount: minor } = http::json(request)?;
        let off = discount(minor)?;
        if !(1..=COUPONS_MAX).contains(&count) {
            return Err(Problem::invalid("count: must be 1 to 1000"));
        }
        let issued = self.0.run(&activity, off, count).await.map_err(Problem::fault)?;
        let issued = issued.ok_or_else(Problem::unknown_activity)?;
        // How many and by whom; the codes are worth money.
        tracing::info!(%activity, operator = operator.log_id(), count, discount = minor, "issue_coupons");
        let codes: Vec<&CouponCode> = issued.coupons.iter().map(|coupon| &coupon.code).collect();
        let body = json!({"activity": activity, "discount": off, "currency": issued.currency, "coupons": codes});
        Ok(http::ok(201, &body))
    }
}
