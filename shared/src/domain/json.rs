//! JSON from outside as the HTTP contract has it. serde's derived readers take more: an array for an object,
//! its fields by their place in the code, and an object for a word.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A value that was written as an object.
pub struct Object<T>(pub T);

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// For a field that is an object.
///
/// # Errors
/// When it is anything else, or not the object that is wanted.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// For a field that is a list of objects.
///
/// # Errors
/// As [`object`].
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let all: Vec<Object<T>> = Vec::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Object(value)| value).collect())
}

/// For a field that is one of some words.
///
/// # Errors
/// When it is no text, or none of them.
pub fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(deserialize_with = "word")]
        colour: Colour,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(deserialize_with = "object")]
        one: Inner,
        #[serde(deserialize_with = "objects")]
        many: Vec<Inner>,
    }

    fn read(text: &str) -> Result<Outer, String> {
        serde_json::from_str(text).map(|Object(outer)| outer).map_err(|error| error.to_string())
    }

    #[test]
    fn objects_and_words_are_read_and_nothing_in_their_place() {
        let red = || Inner { colour: Colour::Red };
        let good = r#"{"one":{"colour":"red"},"many":[{"colour":"red"}]}"#;
        assert_eq!(read(good), Ok(Outer { one: red(), many: vec![red()] }));
        for (bad, why) in [
            (r#"[{"colour":"red"},[]]"#, "expected an object"),
            (r#"{"one":["red"],"many":[]}"#, "expected an object"),
            (r#"{"one":{"colour":"red"},"many":[["red"]]}"#, "expected an object"),
            (r#"{"one":{"colour":"red"},"many":{}}"#, "expected a sequence"),
            (r#"{"one":{"colour":{"red":null}},"many":[]}"#, "expected a string"),
            (r#"{"one":{"colour":"blue"},"many":[]}"#, "unknown variant `blue`"),
            (r#"{"one":{"colour":"red","x":1},"many":[]}"#, "unknown field `x`"),
            (r#"{"one":{"colour":"red","colour":"red"},"many":[]}"#, "duplicate field `colour`"),
            (r#"{"many":[]}"#, "missing field `one`"),
            ("null", "expected an object"),
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
