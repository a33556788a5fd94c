//! How much work it is to check arguments, found out before it is done.
//!
//! A schema of thirty short definitions, each of which names the next one twice, is a billion steps to check against anything.
//! Servers are strangers, and nothing stops a check that has begun; so the steps are counted first, no further than is
//! allowed. Only references can do this: without them, a schema is as long as it looks.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Steps that any check may take, and how many more for each value of the arguments.
const STEPS_MAX: usize = 10_000;
const STEPS_PER_VALUE: usize = 64;

/// Fields by which a schema names another one.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Fields that hold schemas for the same value: one, a list, or one for each name.
const SAME: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Fields that hold schemas for the values within an object or a list.
const ANY_FIELD: [&str; 4] =
    ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"];
const ANY_ITEM: [&str; 5] = ["items", "prefixItems", "contains", "additionalItems", "unevaluatedItems"];

/// A schema with references.
#[derive(Debug)]
pub(super) struct Steps {
    schema: Value,
}

impl Steps {
    /// The schema, if there is anything to count.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        refers(schema).then(|| Self { schema: schema.clone() })
    }

    /// Whether arguments are checked in a reasonable number of steps.
    pub(super) fn are_few(&self, input: &Value) -> bool {
        let names = names(&self.schema);
        let mut left = STEPS_MAX.saturating_add(STEPS_PER_VALUE.saturating_mul(values(input)));
        // INVARIANT: it never holds more than what is left of the steps.
        let mut open = vec![(&self.schema, input)];
        while let Some((schema, value)) = open.pop() {
            let Value::Object(schema) = schema else { continue };
            let mut go = |schema, value| match left.checked_sub(1) {
                Some(less) => {
                    left = less;
                    open.push((schema, value));
                    true
                }
                None => false,
            };
            let referred = REFERENCES.iter().filter_map(|field| schema.get(*field)?.as_str());
            let referred = referred.map(|name| target(&self.schema, &names, name));
            let same = SAME.iter().filter_map(|field| schema.get(*field)).flat_map(schemas);
            if !referred.chain(same).all(|each| go(each, value)) {
                return false;
            }
            if !within(schema, value, &mut go) {
                return false;
            }
        }
        true
    }
}

/// Goes on with the values within a value. False, if there were too many steps.
fn within<'a>(
    schema: &'a Map<String, Value>,
    value: &'a Value,
    go: &mut impl FnMut(&'a Value, &'a Value) -> bool,
) -> bool {
    let all = |fields: &[&str]| -> Vec<&'a Value> {
        fields.iter().filter_map(|field| schema.get(*field)).flat_map(schemas).collect()
    };
    match value {
        Value::Object(fields) => {
            let (named, any) = (schema.get("properties").and_then(Value::as_object), all(&ANY_FIELD));
            fields.iter().all(|(name, value)| {
                let own = named.and_then(|named| named.get(name));
                own.into_iter().chain(any.iter().copied()).all(|each| go(each, value))
            })
        }
        Value::Array(items) => {
            let any = all(&ANY_ITEM);
            items.iter().all(|value| any.iter().all(|each| go(each, value)))
        }
        _ => true,
    }
}

/// The schemas that a field holds: itself, or those in it. A schema is counted once too often rather than left out.
fn schemas(held: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match held {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => {
            Box::new(std::iter::once(held).chain(map.values().filter(|each| each.is_object())))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            REFERENCES.iter().any(|field| fields.contains_key(*field)) || fields.values().any(refers)
        }
        Value::Array(list) => list.iter().any(refers),
        _ => false,
    }
}

/// Schemas that have a name of their own.
fn names(schema: &Value) -> HashMap<&str, &Value> {
    let (mut names, mut open) = (HashMap::new(), vec![schema]);
    while let Some(schema) = open.pop() {
        match schema {
            Value::Object(fields) => {
                let own = ["$anchor", "$dynamicAnchor", "$id", "id"].iter();
                let own = own.filter_map(|field| fields.get(*field)?.as_str());
                names.extend(own.map(|name| (name, schema)));
                open.extend(fields.values());
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    names
}

/// What a reference stands for; the whole schema, if that is not known.
fn target<'a>(root: &'a Value, names: &HashMap<&str, &'a Value>, reference: &str) -> &'a Value {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let document = names.get(document).copied().unwrap_or(root);
    match fragment {
        "" => document,
        path if path.starts_with('/') => {
            // Pointers in a reference are percent-encoded, as few are.
            document.pointer(path).or_else(|| root.pointer(path)).unwrap_or(root)
        }
        anchor => names.get(anchor).copied().unwrap_or(root),
    }
}

/// How many values there are in a value, itself included.
fn values(value: &Value) -> usize {
    let (mut count, mut open) = (0_usize, vec![value]);
    while let Some(value) = open.pop() {
        count = count.saturating_add(1);
        match value {
            Value::Object(fields) => open.extend(fields.values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn are_few(schema: &Value, input: &Value) -> bool {
        Steps::of(schema).is_none_or(|steps| steps.are_few(input))
    }

    /// Definitions each of which names the next one twice, in these words.
    fn doubling(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
        let next = |n: usize| json!({"$ref": format!("#/$defs/d{}", n + 1)});
        let mut defs: Map<String, Value> = (0..levels).map(|n| (format!("d{n}"), twice(next(n)))).collect();
        defs.insert(format!("d{levels}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    #[test]
    fn what_unfolds_without_end_is_seen_before_it_is_unfolded() {
        for twice in [
            |next: Value| json!({"allOf": [next, next]}),
            |next: Value| json!({"not": next, "if": next}),
            |next: Value| json!({"anyOf": [next], "oneOf": [{"not": next}]}),
            |next: Value| json!({"dependentSchemas": {"a": next, "b": next}}),
        ] {
            assert!(!are_few(&doubling(30, twice), &json!({})));
            assert!(are_few(&doubling(5, twice), &json!({})));
        }
        let mut deep = json!(1);
        for _ in 0..40 {
            deep = json!({"a": deep});
        }
        let twice = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        assert!(!are_few(&twice, &deep));
        assert!(are_few(&twice, &json!({"a": {"a": 1}})));
        for endless in [
            json!({"$ref": "#"}),
            json!({"$dynamicRef": "#x", "$dynamicAnchor": "x"}),
            json!({"$ref": "elsewhere"}),
            json!({"$ref": "a", "$defs": {"a": {"$id": "a", "$ref": "a"}}}),
        ] {
            assert!(!are_few(&endless, &json!({})), "{endless}");
        }
    }

    #[test]
    fn what_people_write_is_not_in_the_way() {
        let mut tree = json!({"name": "leaf"});
        for _ in 0..60 {
            tree = json!({"name": "branch", "children": [tree, {"name": "leaf"}]});
        }
        let schema = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }},
        });
        assert!(are_few(&schema, &tree));
        // Any JSON, and what databases take for questions: every level has several ways to go on.
        let any = json!({
            "$id": "any",
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "any"}},
                {"type": "object", "additionalProperties": {"$ref": "any"}},
            ],
        });
        assert!(are_few(&any, &tree));
        let question = json!({"$ref": "#/$defs/q", "$defs": {"q": {"oneOf": [
            {"properties": {"and": {"items": {"$ref": "#/$defs/q"}}}},
            {"properties": {"or": {"items": {"$ref": "#/$defs/q"}}}},
            {"properties": {"not": {"$ref": "#/$defs/q"}}},
            {"properties": {"is": {"type": "string"}}},
        ]}}});
        let mut asked = json!({"is": "blue"});
        for _ in 0..30 {
            asked = json!({"and": [{"or": [asked, {"is": "red"}]}, {"not": {"is": "green"}}]});
        }
        assert!(are_few(&question, &asked));
        let long = json!({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}});
        assert!(are_few(&long, &json!(vec![1; 100_000])));
    }
}
