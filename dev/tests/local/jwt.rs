//! What the authorizer accepts and what it refuses.

use data_encoding::BASE64URL_NOPAD;
use dev::gateway::jwt::{Authorizer, Identity, LOGIN_LIFE_S, Unauthorized};
use serde_json::{Value, json};

const NOW_S: i64 = 1_800_000_000;

fn authorizer() -> Authorizer {
    Authorizer::new(vec![7; 32])
}

fn claims() -> Value {
    json!({
        "iss": "https://login.holdfast.localhost", "aud": "holdfast", "sub": "alice",
        "iat": NOW_S, "exp": NOW_S + 60,
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn check(claims: &Value) -> Result<Identity, Unauthorized> {
    let token = authorizer().sign(&json!({ "alg": "HS256" }), claims);
    authorizer().check(Some(&format!("Bearer {token}")), NOW_S)
}

#[test]
fn a_login_is_valid_for_a_day_and_has_the_scope_of_its_groups() {
    let authorizer = authorizer();
    let check = |groups: &[&str], at| {
        let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
        authorizer.check(Some(&authorizer.login("alice", &groups, NOW_S)), at)
    };
    let buyer = check(&[], NOW_S).unwrap();
    assert_eq!(buyer.claims["sub"], "alice");
    assert!(buyer.scopes.is_empty() && !buyer.claims.contains_key("groups"));
    assert!(check(&[], NOW_S + LOGIN_LIFE_S - 1).is_ok());
    assert_eq!(check(&[], NOW_S + LOGIN_LIFE_S), Err(Unauthorized));
    let operator = check(&["operator", "finance"], NOW_S).unwrap();
    assert_eq!(operator.claims["groups"], "[operator finance]");
    assert_eq!(operator.scopes, ["holdfast/operate"]);
    assert_eq!(check(&["auditor"], NOW_S).unwrap().scopes, ["holdfast/operate"]);
    assert!(check(&["finance", "operators"], NOW_S).unwrap().scopes.is_empty());
}

#[test]
fn times_issuer_and_audience_are_checked() {
    assert!(check(&claims()).is_ok());
    assert!(check(&with("nbf", json!(NOW_S))).is_ok());
    assert!(check(&with("aud", json!(["other", "holdfast"]))).is_ok());
    for (name, value) in [
        ("exp", json!(NOW_S)),
        ("exp", json!(NOW_S - 1)),
        ("exp", Value::Null),
        ("exp", json!("never")),
        ("nbf", json!(NOW_S + 1)),
        ("nbf", json!("soon")),
        ("iat", json!(NOW_S + 1)),
        ("iss", json!("https://elsewhere")),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", Value::Null),
    ] {
        assert_eq!(check(&with(name, value.clone())), Err(Unauthorized), "{name} {value}");
    }
}

#[test]
fn claims_become_text_as_the_gateway_writes_it() {
    let mut claims = with("groups", json!(["operator", "finance"]));
    claims["verified"] = json!(true);
    claims["empty"] = json!([]);
    claims["nested"] = json!({ "a": 1, "b": ["x", "y"] });
    let identity = check(&claims).unwrap();
    for (name, text) in [
        ("groups", "[operator finance]"),
        ("verified", "true"),
        ("empty", "[]"),
        ("nested", "map[a:1 b:[x y]]"),
        ("exp", "1800000060"),
    ] {
        assert_eq!(identity.claims[name], text);
    }
}

#[test]
fn only_our_signature_and_only_our_algorithm_count() {
    let authorizer = authorizer();
    let good = authorizer.sign(&json!({ "alg": "HS256" }), &claims());
    assert!(authorizer.check(Some(&good), NOW_S).is_ok(), "the word Bearer may be missing");
    let foreign = Authorizer::new(vec![8; 32]).sign(&json!({ "alg": "HS256" }), &claims());
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let unsigned = format!("{}.{}.", encode(&json!({ "alg": "none" })), encode(&claims()));
    let mut bad = vec![foreign, unsigned, String::new(), ".".to_owned(), "..".to_owned(), "a.b.c".to_owned()];
    for alg in ["none", "hs256", "HS512", "RS256"] {
        bad.push(authorizer.sign(&json!({ "alg": alg }), &claims()));
    }
    bad.push(authorizer.sign(&json!({}), &claims()));
    bad.push(authorizer.sign(&json!({ "alg": "HS256" }), &json!("not an object")));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    bad.push(signed.to_owned());
    bad.push(format!("{signed}."));
    bad.push(format!("{good}="));
    bad.push(format!("{signed}.{}", &signature[1..]));
    // Another subject under the same signature.
    let (header, _) = signed.split_once('.').unwrap();
    bad.push(format!("{header}.{}.{signature}", encode(&with("sub", json!("mallory")))));
    for token in bad {
        assert_eq!(authorizer.check(Some(&format!("Bearer {token}")), NOW_S), Err(Unauthorized), "{token}");
    }
    assert_eq!(authorizer.check(None, NOW_S), Err(Unauthorized));
    assert_eq!(authorizer.check(Some(&format!("Basic {good}")), NOW_S), Err(Unauthorized));
}
