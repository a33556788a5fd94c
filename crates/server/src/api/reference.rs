//! `docs/api.md`: every operation, from the document that the server serves about itself.

use std::path::Path;

use serde_json::Value;

use super::openapi::{ALWAYS, METHODS, POSTED, WITH_BODY};
use crate::router;

const BEGINNING: &str = "\
# HTTP API

This page is made of `/openapi.json`, which every server serves about itself; a test keeps it so, and runs every example against a
real server. `$WEIR` is the address of yours, such as `http://127.0.0.1:8080`. Where a server wants to know who asks, add
`-H \"Authorization: Bearer $TOKEN\"`.

- **Errors** are `{\"error\": {\"code\", \"message\", \"help\"}}` with the right status: a stable code, what is wrong, what to do next. The
  endpoints for vendors' SDKs use the shapes of those vendors.
- **What is not yours does not exist**: the answer is the same 404 as for what was never there. Administrators see everything.
- **Strict**: unknown query parameters, where there are any, and unknown keys of a body are a 400 that names the known ones; the endpoints for
  vendors' SDKs ignore what they do not know. A JSON body needs
  `Content-Type: application/json`. Names in paths are percent-encoded (`a%2Fb`).
- **Pages**: `next` of a page is `after` of the next one; null means that nothing follows at the moment.
- **`Idempotency-Key`** on any POST makes it safe to repeat: who asks, the address, `X-Weir-Session` and the body being the same, the second request gets
  the answer of the first with `Idempotency-Replayed: true`, also from a server that was killed in between; another body or session under the same
  key is a 422, and a request that is still being handled a 409. A run that was cut off before it was answered is found again, not
  begun again. Errors and 202s are not kept: such a request may be repeated. The body has to fit into the limit of bodies.
- **Waiting**: a chat that is not streamed waits up to five minutes, then answers 202 with the session and where its events are. The
  run goes on, and the same `Idempotency-Key` waits for it again.
";

fn page() -> String {
    let document = router::document();
    let mut page = format!("{BEGINNING}{}", common_errors());
    let mut tags: Vec<String> = Vec::new();
    let mut operations: Vec<(String, String, String, Value)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let tag = operation["tags"][0].as_str().unwrap_or("server").to_owned();
            if !tags.contains(&tag) {
                tags.push(tag.clone());
            }
            operations.push((tag, path.clone(), method.to_uppercase(), operation.clone()));
        }
    }
    tags.sort();
    operations.sort_by(|one, other| (&one.1, &one.2).cmp(&(&other.1, &other.2)));
    for tag in tags {
        page.push_str(&format!("\n## {}\n", titled(&tag)));
        for (_, path, method, operation) in operations.iter().filter(|operation| operation.0 == tag) {
            page.push_str(&section(&document, path, method, operation));
        }
    }
    page
}

fn titled(tag: &str) -> String {
    let mut letters = tag.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn section(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut text = format!("\n### {method} {path}\n\n");
    let (summary, description) = (operation["summary"].as_str(), operation["description"].as_str());
    for words in [summary, description.filter(|words| Some(*words) != summary)].into_iter().flatten() {
        text.push_str(&format!("{words}\n\n"));
    }
    let example = operation["x-curl"]
        .as_str()
        .unwrap_or_else(|| panic!("{method} {path} has no example in api/curl.rs"));
    text.push_str(&format!("```sh\n{example}\n```\n"));
    let mut rows = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // It is the same everywhere, and told above.
        if parameter["name"] == "Idempotency-Key" {
            continue;
        }
        let place = parameter["in"].as_str().unwrap();
        rows.push(row(document, parameter["name"].as_str().unwrap(), place, &parameter["schema"], parameter));
    }
    if let Some(content) = operation["requestBody"]["content"].as_object() {
        for (kind, body) in content {
            match fields(document, &body["schema"]) {
                Some(fields) => rows
                    .extend(fields.iter().map(|(name, schema)| row(document, name, "body", schema, schema))),
                None => rows.push(format!("| | body | `{kind}` | |\n")),
            }
        }
    }
    if !rows.is_empty() {
        text.push_str("\n| field | in | type | what |\n| --- | --- | --- | --- |\n");
        text.push_str(&rows.concat());
    }
    text.push_str(&answers(document, operation));
    text
}

fn answers(document: &Value, operation: &Value) -> String {
    let responses = operation["responses"].as_object().unwrap();
    let mut text = String::new();
    for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('2')) {
        let schema = response["content"].get("application/json").map(|content| &content["schema"]);
        let names = schema.and_then(|schema| fields(document, schema));
        let shape = names.map(|names| {
            let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
            format!("`{{{}}}`", names.join(", "))
        });
        let kinds = response["content"].as_object().into_iter().flat_map(|content| content.keys());
        let other = kinds.filter(|kind| *kind != "application/json").map(|kind| format!("`{kind}`"));
        let told: Vec<String> = shape.into_iter().chain(other).collect();
        let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", or ")) };
        text.push_str(&format!("\n{status}{told}\n"));
    }
    let mut errors: Vec<(&str, &str)> = responses
        .iter()
        .filter_map(|(status, response)| Some((status.as_str(), response["description"].as_str()?)))
        .filter(|told| {
            !told.0.starts_with('2') && !told.0.ends_with("XX") && !common().any(|known| known == *told)
        })
        .collect();
    errors.sort_unstable();
    for (status, words) in errors {
        text.push_str(&format!("\n{status}: {words}\n"));
    }
    text
}

/// What is not told for each endpoint, but once.
fn common() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALWAYS.into_iter().chain(WITH_BODY).chain(POSTED)
}

/// A table of them.
fn common_errors() -> String {
    let mut rows = String::from("\n| status | of | when |\n| --- | --- | --- |\n");
    for (of, errors) in
        [("any endpoint", &ALWAYS[..]), ("one that takes a body", &WITH_BODY), ("a POST", &POSTED)]
    {
        for (status, words) in errors {
            rows.push_str(&format!("| {status} | {of} | {words} |\n"));
        }
    }
    rows
}

/// The fields of an object, wherever it is described; nothing, if it is no object with fields.
fn fields(document: &Value, schema: &Value) -> Option<Vec<(String, Value)>> {
    let schema = resolved(document, schema);
    let properties = schema["properties"].as_object()?;
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = properties.iter().map(|(name, field)| {
        let mut field = field.clone();
        if !required.contains(&Value::from(name.as_str())) {
            field["x-optional"] = true.into();
        }
        (name.clone(), field)
    });
    Some(fields.collect())
}

/// Follows references, and what stands beside `null`.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return resolved(document, &document["components"]["schemas"][name]);
    }
    let options = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let real: Vec<&Value> = options.into_iter().flatten().filter(|option| option["type"] != "null").collect();
    match real.as_slice() {
        [only] => resolved(document, only),
        _ => schema,
    }
}

fn row(document: &Value, name: &str, place: &str, schema: &Value, about: &Value) -> String {
    let is_optional = match place {
        "body" => schema["x-optional"] == true,
        _ => about["required"] != true,
    };
    let mark = if is_optional { "" } else { " *" };
    let words = about["description"].as_str().or_else(|| schema["description"].as_str());
    let words = words.unwrap_or_default().replace('|', "\\|").replace('\n', " ");
    format!("| `{name}`{mark} | {place} | {} | {words} |\n", kind(document, schema))
}

fn kind(document: &Value, schema: &Value) -> String {
    let name = schema["$ref"].as_str().map(|name| name.rsplit('/').next().unwrap().to_owned());
    let schema = resolved(document, schema);
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect()
        }
        _ => vec![],
    };
    match (kinds.as_slice(), name) {
        (["array"], _) => format!("list of {}", kind(document, &schema["items"])),
        (["object"] | [], Some(name)) => format!("*{name}*"),
        ([], None) => "any".to_owned(),
        (kinds, _) => kinds.join(" or "),
    }
}

#[test]
fn the_page_about_the_api_is_what_is_served() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = page();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page, "docs/api.md is old: run WEIR_BLESS=1 cargo nextest run -p weir-server reference");
}

#[test]
fn every_operation_is_described_and_has_an_example() {
    let document = router::document();
    let mut ids = std::collections::BTreeSet::new();
    let mut examples = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in METHODS.iter().filter_map(|method| Some((method, item.get(*method)?))) {
            let name = format!("{method} {path}");
            assert!(
                operation["summary"].as_str().is_some_and(|words| !words.is_empty()),
                "{name} says nothing"
            );
            assert!(operation["x-curl"].is_string(), "{name} has no example in api/curl.rs");
            assert!(
                ids.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{name}: its id is there twice"
            );
            examples += 1;
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(
                    response["description"].as_str().is_some_and(|words| !words.is_empty()),
                    "{name} {status}"
                );
            }
        }
    }
    assert_eq!(examples, super::curl::EXAMPLES.len(), "an example is for an operation that is not there");
    // What is made by hand is a schema, too.
    assert!(document["components"]["schemas"]["Message"]["oneOf"].is_array());
}
