//! Statements about an image (<https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md>).

use serde_json::{Value, json};

/// The statement `predicate`, of a type, about what `subject` describes
/// (<https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/resource_descriptor.md>).
pub fn statement(subject: &Value, predicate_type: &str, predicate: &Value) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [subject],
        "predicateType": predicate_type,
        "predicate": predicate,
    })
}
