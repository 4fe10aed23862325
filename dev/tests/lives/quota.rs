//! Whether who gave an order up may buy again.

use serde_json::json;

use crate::shop::{Shop, code};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Cancel,
    Expiry,
    Refund,
    /// By an operator, who says whether the quota goes back.
    OperatorCancel(bool),
    OperatorRefund(bool),
}

#[tokio::test]
async fn the_policy_decides_unless_an_operator_does() {
    use Ending as E;
    let rows = [
        ("release", E::Cancel, true),
        ("release", E::Expiry, true),
        ("release", E::Refund, true),
        ("release", E::OperatorCancel(false), false),
        ("release", E::OperatorRefund(false), false),
        ("keep", E::Cancel, false),
        ("keep", E::Expiry, false),
        ("keep", E::Refund, true),
        ("keep", E::OperatorCancel(true), true),
        ("keep", E::OperatorRefund(false), false),
    ];
    for (policy, ending, again) in rows {
        let shop = Shop::open(4, &json!({"on_cancel": policy})).await;
        let order_no = shop.order("alice").await;
        if matches!(ending, E::Refund | E::OperatorRefund(_)) {
            shop.pay(&order_no).await;
        }
        let ended = match ending {
            E::Cancel => shop.cancel("alice", &order_no, &json!({})).await,
            E::Expiry => {
                shop.let_expire().await;
                (200, json!({}))
            }
            E::Refund => shop.operate("refund", &order_no, &json!({"reason": "x"})).await,
            E::OperatorCancel(release) => {
                shop.operate("cancel", &order_no, &json!({"reason": "x", "release_quota": release})).await
            }
            E::OperatorRefund(release) => {
                shop.operate("refund", &order_no, &json!({"reason": "x", "release_quota": release})).await
            }
        };
        assert_eq!(ended.0, 200, "{policy}, {ending:?}: {}", ended.1);
        assert_eq!(shop.left().await, (4, 4), "{policy}, {ending:?}");
        // Whatever Redis lost and was given again.
        assert_eq!(shop.reconcile().await, json!({}), "{policy}, {ending:?}");
        let answer = shop.submit("alice", &shop.token("alice"), 1).await;
        let expected = if again { (201, "") } else { (409, "limit_reached") };
        assert_eq!(code(&answer), expected, "{policy}, {ending:?}");
    }
}

/// The quota comes back to the day on which the order was admitted, and a late payment needs it again.
#[tokio::test]
async fn f6_a_kept_quota_is_not_taken_twice_by_a_late_payment() {
    let shop = Shop::open(4, &json!({"on_cancel": "keep"})).await;
    let order_no = shop.order("alice").await;
    shop.let_expire().await;
    assert_eq!(code(&shop.submit("alice", &shop.token("alice"), 1).await), (409, "limit_reached"));
    let told = shop.tell(&order_no, "late", "paid").await;
    assert_eq!(crate::shop::outcome(&told), "paid_late");
    shop.agree().await;
}
