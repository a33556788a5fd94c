//! Whether arguments fit a tool's schema.

mod steps;

use jsonschema::Validator;
use serde_json::Value;

use self::steps::Steps;

/// Most faults that are told at once. A model mends them one or all; a thousand help nobody.
const FAULTS_MAX: usize = 5;

/// Longest account of one fault.
const FAULT_CHARACTERS_MAX: usize = 300;

/// A schema, ready to be asked.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Result<Validator, String>,
    steps: Option<Steps>,
}

impl Schema {
    /// Reads a schema. Nothing is fetched: a reference to elsewhere is a schema that cannot be used.
    pub(crate) fn new(schema: &Value) -> Self {
        let validator = jsonschema::validator_for(schema).map_err(|error| shortened(&error.to_string()));
        Self { validator, steps: Steps::of(schema) }
    }

    /// What is wrong with the arguments, in words for the model. A schema that cannot be read is fitted by nothing: what
    /// cannot be checked must not run.
    pub(crate) fn faults(&self, input: &Value) -> Result<(), String> {
        let unusable = |why: &str| format!("the tool's own schema cannot be used: {why}");
        let validator = self.validator.as_ref().map_err(|why| unusable(why))?;
        if self.steps.as_ref().is_some_and(|steps| !steps.are_few(input)) {
            return Err(unusable("it would take too long to check these arguments against it"));
        }
        let faults: Vec<String> = validator
            .iter_errors(input)
            .take(FAULTS_MAX)
            .map(|fault| {
                let at = fault.instance_path().to_string();
                let words = shortened(&fault.to_string());
                if at.is_empty() { words } else { format!("{words} at `{at}`") }
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

fn shortened(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(FAULT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_fit_or_the_faults_are_told() {
        let schema = Schema::new(&json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
            "additionalProperties": false,
        }));
        assert_eq!(schema.faults(&json!({"city": "Oslo", "days": 2})), Ok(()));
        let faults = schema.faults(&json!({"days": 0, "x": 1})).unwrap_err();
        assert!(faults.contains("\"city\" is a required property"), "{faults}");
        assert!(faults.contains("at `/days`") && faults.contains("'x'"), "{faults}");
        assert!(schema.faults(&json!([])).is_err());
    }

    #[test]
    fn what_cannot_be_checked_does_not_fit() {
        let mut defs = json!({"d40": {"type": "string"}});
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            defs[format!("d{n}")] = json!({"allOf": [next, next]});
        }
        for broken in [
            json!({"type": "nonsense"}),
            json!({"$ref": "https://example.com/schema"}),
            json!({"$ref": "#/$defs/d0", "$defs": defs}),
        ] {
            assert!(
                Schema::new(&broken).faults(&json!({})).unwrap_err().contains("cannot be used"),
                "{broken}"
            );
        }
    }

    #[test]
    fn a_thousand_faults_are_told_as_five() {
        let schema = Schema::new(&json!({"type": "array", "items": {"type": "string"}}));
        let faults = schema.faults(&json!(vec![1; 1000])).unwrap_err();
        assert_eq!(faults.split("; ").count(), FAULTS_MAX);
    }
}
