//! Answers against `openapi.yaml`: every status, content type, header and body that a client can see
//! must be one that the document describes.

#![allow(clippy::unwrap_used)] // for tests only: the document is part of the project

use std::{fs, path::Path};

use jsonschema::Validator;
use lambda_http::{Body, Response};
use serde_json::{Value, json};

/// The document, read once.
pub struct Contract {
    document: Value,
}

impl Contract {
    /// # Panics
    /// When the document cannot be read.
    #[must_use]
    pub fn load() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.yaml");
        Self { document: serde_yaml_ng::from_str(&fs::read_to_string(path).unwrap()).unwrap() }
    }

    /// # Errors
    /// What of the answer the document does not describe.
    pub fn check(&self, route: &str, response: &Response<Body>) -> Result<(), String> {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body: &[u8] = response.body().as_ref();
        self.check_parts(route, status, &header, body)
    }

    /// The same from the parts of an answer.
    ///
    /// # Errors
    /// What of the answer the document does not describe.
    pub fn check_parts(
        &self,
        route: &str,
        status: u16,
        header: &dyn Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> Result<(), String> {
        let (method, path) = route.split_once(' ').ok_or("no such route")?;
        let operation = &self.document["paths"][path][method.to_lowercase()];
        let described = self.resolve(&operation["responses"][status.to_string()]);
        if described.is_null() {
            return Err(format!("{route} does not describe {status}"));
        }
        for (name, described) in described["headers"].as_object().into_iter().flatten() {
            let described = self.resolve(described);
            match header(name) {
                Some(value) => self.validate(&described["schema"], &json!(value), name)?,
                None if described["required"] == json!(true) => {
                    return Err(format!("{status} lacks the header {name}"));
                }
                None => {}
            }
        }
        let content_type = header("content-type").unwrap_or_default();
        let schema = &described["content"][&content_type]["schema"];
        if schema.is_null() {
            return Err(format!("{route} does not describe {content_type} for {status}"));
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        self.validate(schema, &body, "body")
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn validate(&self, schema: &Value, instance: &Value, what: &str) -> Result<(), String> {
        // The schema with the components beside it, so that its references resolve.
        let root = json!({"components": self.document["components"], "allOf": [schema]});
        let validator: Validator =
            jsonschema::options().should_validate_formats(true).build(&root).map_err(|error| error.to_string())?;
        let errors: Vec<String> = validator.iter_errors(instance).map(|error| error.to_string()).collect();
        if errors.is_empty() { Ok(()) } else { Err(format!("{what}: {}; it is {instance}", errors.join("; "))) }
    }
}
