//! `template.yaml` as data: an intrinsic function `!Name x` is `{"Name": x}`.

use std::{fs, path::Path};

use serde_json::{Map, Value as Json};
use serde_yaml_ng::Value as Yaml;

/// The resources of one type, by their names.
pub fn resources(kind: &str) -> Vec<(String, Json)> {
    let all = template();
    let all = all["Resources"].as_object().unwrap();
    let found: Vec<_> =
        all.iter().filter(|(_, it)| it["Type"] == kind).map(|(n, it)| (n.clone(), it.clone())).collect();
    assert!(!found.is_empty(), "no {kind}");
    found
}

/// The properties of one resource.
pub fn properties(name: &str) -> Json {
    let found = template()["Resources"][name]["Properties"].clone();
    assert!(found.is_object(), "no {name}");
    found
}

pub fn template() -> Json {
    plain(&serde_yaml_ng::from_str(&text("template.yaml")).unwrap())
}

/// A file of the project.
pub fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap()
}

fn plain(yaml: &Yaml) -> Json {
    match yaml {
        Yaml::Null => Json::Null,
        Yaml::Bool(it) => Json::from(*it),
        Yaml::Number(it) => it.as_i64().map_or_else(|| Json::from(it.as_f64()), Json::from),
        Yaml::String(it) => Json::from(it.as_str()),
        Yaml::Sequence(all) => all.iter().map(plain).collect(),
        Yaml::Mapping(all) => {
            all.iter().map(|(key, it)| (key.as_str().unwrap().to_owned(), plain(it))).collect::<Map<_, _>>().into()
        }
        Yaml::Tagged(it) => {
            let name = it.tag.to_string().trim_start_matches('!').to_owned();
            Json::Object(Map::from_iter([(name, plain(&it.value))]))
        }
    }
}

/// One value or a list of them, as a list.
pub fn list(value: &Json) -> Vec<Json> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// Every text in a value, keys left out.
pub fn texts(value: &Json) -> Vec<String> {
    match value {
        Json::String(it) => vec![it.clone()],
        Json::Array(all) => all.iter().flat_map(texts).collect(),
        Json::Object(all) => all.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}
