//! JSON Schema of every kind of file, for editors: made of the same description that the reader checks by.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::shape::{Choice, Field, Kind, PLANNED, Shape};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// `weir.yaml`.
    Project,
    /// `agents/<name>/spec.yaml`.
    Agent,
    /// `loops/<name>.yaml`.
    Loop,
    /// `models/<name>.yaml`.
    Script,
    /// `tests/<name>.yaml`.
    Tests,
}

impl Document {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Project, Self::Agent, Self::Loop, Self::Script, Self::Tests];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Agent => "agent",
            Self::Loop => "loop",
            Self::Script => "script",
            Self::Tests => "tests",
        }
    }

    /// The files that it describes.
    pub const fn files(self) -> &'static str {
        match self {
            Self::Project => "weir.yaml",
            Self::Agent => "agents/*/spec.yaml",
            Self::Loop => "loops/*.yaml",
            Self::Script => "models/*.yaml",
            Self::Tests => "tests/*.yaml",
        }
    }

    pub(crate) fn shape(self) -> &'static Shape {
        match self {
            Self::Project => &crate::project::PROJECT,
            Self::Agent => &crate::agent::AGENT,
            Self::Loop => &crate::loops::LOOP,
            Self::Script => &crate::script::SCRIPT,
            Self::Tests => &crate::scenario::TESTS,
        }
    }
}

/// The JSON Schema (draft 2020-12) of a kind of file.
pub fn schema(document: Document) -> Value {
    let mut shared = Shared::default();
    let Value::Object(mut root) = shared.body(document.shape()) else { return Value::Null };
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!(format!("Weir: {}", document.files())));
    root.insert("$defs".to_owned(), Value::Object(shared.definitions));
    Value::Object(root)
}

/// Shapes that are mappings within: each is described once, so that one which contains itself has an end.
#[derive(Default)]
struct Shared {
    known: Vec<(&'static Shape, String)>,
    definitions: Map<String, Value>,
}

impl Shared {
    fn reference(&mut self, shape: &'static Shape) -> Value {
        let known =
            self.known.iter().find(|(known, _)| std::ptr::eq(*known, shape)).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = self.free_name(shape);
            self.known.push((shape, name.clone()));
            let body = self.body(shape);
            self.definitions.insert(name.clone(), body);
            name
        });
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// `an entry of acl` → `entry-of-acl`, and a number where two are called the same.
    fn free_name(&self, shape: &Shape) -> String {
        let words =
            shape.what.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let name = words.filter(|word| !matches!(*word, "a" | "an" | "the")).collect::<Vec<_>>().join("-");
        let taken = |name: &str| self.known.iter().any(|(_, known)| known == name);
        if !taken(&name) {
            return name;
        }
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        numbered.into_iter().find(|name| !taken(name)).unwrap_or(name)
    }

    fn body(&mut self, shape: &'static Shape) -> Value {
        let mut properties = Map::new();
        for field in shape.fields {
            properties.insert(field.name.to_owned(), self.field(field));
        }
        let required: Vec<&str> =
            shape.fields.iter().filter(|field| field.required.is_some()).map(|field| field.name).collect();
        let mut body = json!({
            "type": "object",
            "description": shape.doc,
            "properties": properties,
            "additionalProperties": false,
        });
        if !required.is_empty() {
            body["required"] = json!(required);
        }
        let each =
            |names: &[&str]| names.iter().map(|name| json!({ "required": [name] })).collect::<Vec<_>>();
        match shape.choice {
            Choice::Free => {}
            Choice::One(names) => body["oneOf"] = json!(each(names)),
            Choice::Some(names) => body["anyOf"] = json!(each(names)),
        }
        body
    }

    fn field(&mut self, field: &Field) -> Value {
        let mut value = self.kind(&field.kind);
        value["description"] = match field.is_planned {
            true => json!(format!("{PLANNED} {}", field.doc)),
            false => json!(field.doc),
        };
        value
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        const DURATION: &str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
        const DOLLARS: &str = r"^([0-9]+\.?[0-9]{0,9}|\.[0-9]{1,9})$";
        match kind {
            Kind::Words => json!({ "type": ["string", "number", "boolean"] }),
            Kind::Text => json!({ "type": ["string", "number", "boolean"], "pattern": r"\S" }),
            Kind::Format(format) => {
                let mut value = json!({ "type": "string", "examples": format.examples });
                value["pattern"] = json!(format.pattern.unwrap_or(r"\S"));
                value["$comment"] = json!(format.what);
                value
            }
            Kind::Word(words) => json!({ "enum": words() }),
            Kind::Truth => json!({ "type": "boolean" }),
            Kind::Count => json!({ "type": "integer", "minimum": 1 }),
            Kind::Small => json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
            Kind::Whole(u64::MAX) => json!({ "type": "integer", "minimum": 0 }),
            Kind::Whole(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
            Kind::Duration | Kind::Pause => {
                json!({ "type": "string", "pattern": DURATION, "minLength": 2, "examples": ["90s", "5m", "1h30m"] })
            }
            Kind::Usd => json!({ "type": ["number", "string"], "exclusiveMinimum": 0, "pattern": DOLLARS }),
            Kind::Price => json!({ "type": ["number", "string"], "minimum": 0, "pattern": DOLLARS }),
            Kind::Number => json!({ "type": "number" }),
            Kind::Json => json!({}),
            Kind::Object => json!({ "type": "object" }),
            Kind::List(inner) => json!({ "type": "array", "items": self.kind(inner) }),
            Kind::Some(inner) => json!({ "type": "array", "items": self.kind(inner), "minItems": 1 }),
            Kind::Map(key, value) => {
                let names = json!({ "pattern": key.pattern.unwrap_or(r"\S"), "examples": key.examples });
                json!({ "type": "object", "propertyNames": names, "additionalProperties": self.kind(value) })
            }
            Kind::Shape(shape) => self.reference(shape),
            Kind::Either(Kind::Json, shape) => {
                // Anything but a mapping stands for itself.
                let other = json!({ "type": ["string", "number", "boolean", "null", "array"] });
                json!({ "anyOf": [other, self.reference(shape)] })
            }
            Kind::Either(short, shape) => json!({ "anyOf": [self.kind(short), self.reference(shape)] }),
        }
    }
}
