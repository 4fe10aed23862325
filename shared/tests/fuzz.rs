//! No text from outside makes a parser panic, and what parses is written back the same. About a minute
//! in all: half of the inputs are noise, half are valid texts with a few characters changed.

#![allow(clippy::unwrap_used)]

use holdfast::{
    adapters::dynamodb::read_image,
    domain::{
        activity::{Activity, ActivityDraft},
        ids::{ActivityId, BuyerId, Sku},
        order_no::OrderNo,
        record::Record,
        time::{UnixMillis, Zone},
        token::{Page, SigningKey, Token, TokenId, TokenKeys},
    },
    ports::RollBack,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A text, with up to three characters replaced, removed or doubled.
fn mutated(text: String) -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0_u8..3, any::<char>()), 0..4);
    edits.prop_map(move |edits| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, how, with) in edits {
            if chars.is_empty() {
                break;
            }
            let at = at.index(chars.len());
            match how {
                0 => chars[at] = with,
                1 => drop(chars.remove(at)),
                _ => chars.insert(at, chars[at]),
            }
        }
        chars.into_iter().collect()
    })
}

fn noise_or(text: &str) -> impl Strategy<Value = String> {
    prop_oneof![".{0,300}", mutated(text.to_owned())]
}

fn keys() -> TokenKeys {
    TokenKeys::new(SigningKey::new(1, vec![7; 32]).unwrap(), None).unwrap()
}

fn token() -> Token {
    Token {
        activity: ActivityId::parse("sale").unwrap(),
        buyer: BuyerId::parse("alice").unwrap(),
        page: Page::parse("/p").unwrap(),
        id: TokenId::from_bytes([3; 16]),
        expires_at: UnixMillis::new(1_796_000_000_000),
    }
}

const DRAFT: &str = r#"{"name":"n","starts_at":"2026-11-29T20:00:00Z","ends_at":"2026-11-29T21:00:00Z",
    "time_zone":"Europe/Berlin","strategy":"cas","buckets":8,"limit":{"scope":"day","max":1},"on_cancel":"keep",
    "payment_minutes":15,"admission_ratio":1.0,"currency":"EUR","skus":[{"sku":"a","stock":9,"price":1}]}"#;
const RECORD: &str = "1|D|1|1796000000000|0123456789abcdef0123456789abcdef|phone=1,case=2|";
const MESSAGE: &str = r#"{"format":1,"activity":"sale","order_no":"03PMZ9TWHB6V08WN8MG9SWRMDG","buyer":"alice",
    "home":3,"buckets":[3,1],"reason":"commit_unknown"}"#;
const IMAGE: &str = r#"{"pk":{"S":"S#sale#phone#3"},"sk":{"S":"S"},"format":{"N":"1"},"activity":{"S":"sale"},
    "sku":{"S":"phone"},"bucket":{"N":"3"},"allotted":{"N":"9"},"available":{"N":"8"},"version":{"N":"2"},
    "on_sale":{"BOOL":true},"changed_at":{"S":"2026-11-29T20:00:00Z"},"op":{"S":"order"},"ref":{"S":"x"}}"#;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens(text in noise_or(&keys().sign(&token()))) {
        // Whatever verifies is exactly the text that was signed.
        if let Ok(read) = keys().verify(&text) {
            prop_assert_eq!(keys().sign(&read), text);
        }
    }

    #[test]
    fn ids_and_order_numbers(text in noise_or("03PMZ9TWHB6V08WN8MG9SWRMDG")) {
        if let Ok(order_no) = OrderNo::parse(&text) {
            prop_assert_eq!(order_no.as_str(), &text);
        }
        for parsed in [ActivityId::parse(&text).map(String::from), Sku::parse(&text).map(String::from),
            BuyerId::parse(&text).map(String::from)].into_iter().flatten() {
            prop_assert!(parsed == text && !parsed.is_empty());
        }
    }

    #[test]
    fn records(text in noise_or(RECORD)) {
        if let Ok(record) = Record::parse(&text) {
            prop_assert_eq!(Record::parse(&record.to_string()).unwrap(), record);
        }
    }

    #[test]
    fn times_and_zones(text in prop_oneof![noise_or("2026-11-29T20:00:00.123+05:45"), noise_or("Asia/Kathmandu")]) {
        if let Ok(time) = UnixMillis::parse("t", &text) {
            prop_assert_eq!(UnixMillis::parse("t", &time.to_string()).unwrap(), time);
        }
        if let Ok(zone) = Zone::parse(&text) {
            let _ = zone.business_date(UnixMillis::new(i64::MAX));
            let _ = zone.business_date(UnixMillis::new(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn activities(text in noise_or(DRAFT)) {
        if let Ok(draft) = serde_json::from_str::<ActivityDraft>(&text)
            && let Ok(activity) = Activity::create(ActivityId::parse("sale").unwrap(), draft)
        {
            let _ = activity.marks_expire_at(UnixMillis::new(0));
            prop_assert!(activity.window.ends_at > activity.window.starts_at);
        }
    }

    #[test]
    fn messages_and_images(text in prop_oneof![noise_or(MESSAGE), noise_or(IMAGE)]) {
        let _ = serde_json::from_str::<RollBack>(&text);
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = read_image(&value);
        }
    }

    /// Well-formed JSON of every shape, where an item or a message is expected.
    #[test]
    fn any_json(value in any_json_value()) {
        let _ = read_image(&value);
        let _ = read_image(&json!({"pk": {"S": "O#x"}, "format": {"N": "1"}, "x": value}));
        let _ = serde_json::from_value::<RollBack>(value.clone());
        let _ = serde_json::from_value::<ActivityDraft>(value);
    }
}

fn any_json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let names = prop_oneof![Just("S".to_owned()), Just("M".to_owned()), Just("L".to_owned()), ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(names, inner, 0..6)
                .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// The valid texts are valid: otherwise the tests above would only try noise.
#[test]
fn the_seeds_parse() {
    assert!(keys().verify(&keys().sign(&token())).is_ok());
    assert!(Record::parse(RECORD).is_ok());
    assert!(serde_json::from_str::<ActivityDraft>(DRAFT).is_ok());
    assert!(serde_json::from_str::<RollBack>(MESSAGE).is_ok());
    assert!(read_image(&serde_json::from_str(IMAGE).unwrap()).is_ok());
}
