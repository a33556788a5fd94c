//! The schema and the reader are one description: what one refuses, the other refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jsonschema::Validator;

use super::*;
use crate::diagnostic::{Diagnostic, Findings};
use crate::fields::{Fields, asked};
use crate::{json, lock, yaml};

/// The files of `tests/whole`, which uses every field.
fn whole() -> BTreeMap<String, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/whole");
    let mut files = BTreeMap::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => directories.push(path),
                false => {
                    let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    drop(files.insert(name, std::fs::read(path).unwrap()));
                }
            }
        }
    }
    files
}

fn document_of(path: &str) -> Option<Document> {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["weir.yaml"] => Some(Document::Project),
        ["agents", _, "spec.yaml"] => Some(Document::Agent),
        ["loops", _] => Some(Document::Loop),
        ["models", _] => Some(Document::Script),
        ["tests", _] => Some(Document::Tests),
        _ => None,
    }
}

/// All documents of the whole project, as JSON.
fn documents() -> Vec<(String, Document, Value)> {
    let read = |(path, bytes): (String, Vec<u8>)| {
        let document = document_of(&path)?;
        let mut findings = Findings::new(&path);
        let node = yaml::document(&bytes, &mut findings)?;
        let value = json::json(&node, &mut findings)?.to_value();
        assert_eq!(findings.finish(), []);
        Some((path, document, value))
    };
    whole().into_iter().filter_map(read).collect()
}

fn validator(document: Document) -> Validator {
    jsonschema::draft202012::new(&schema(document)).expect("a schema")
}

/// Whether the reader takes a document. JSON is YAML.
fn reads(document: Document, path: &str, value: &Value) -> bool {
    let mut findings = Findings::new(path);
    let bytes = value.to_string().into_bytes();
    match document {
        Document::Project => drop(crate::project::read(&bytes, &mut findings)),
        Document::Agent => drop(crate::agent::read(&bytes, &mut findings)),
        Document::Loop => drop(crate::loops::read(&bytes, &mut findings)),
        Document::Script => drop(crate::script::read(&bytes, &mut findings)),
        Document::Tests => drop(crate::scenario::read(&bytes, &mut findings)),
    }
    !findings.finish().iter().any(Diagnostic::is_error)
}

/// Where in a document, as keys and numbers.
type Place = Vec<Value>;

/// Calls `visit` with every value of a document that a kind describes.
fn walk(value: &Value, kind: &'static Kind, place: &Place, visit: &mut dyn FnMut(&Place, &'static Kind)) {
    visit(place, kind);
    let at = |step: Value| [place.as_slice(), &[step]].concat();
    match (kind, value) {
        (Kind::List(inner) | Kind::Some(inner), Value::Array(items)) => {
            for (n, item) in items.iter().enumerate() {
                walk(item, inner, &at(json!(n)), visit);
            }
        }
        (Kind::Map(_, inner), Value::Object(entries)) => {
            for (key, item) in entries {
                walk(item, inner, &at(json!(key)), visit);
            }
        }
        (Kind::Shape(shape) | Kind::Either(_, shape), Value::Object(entries)) => {
            for (key, item) in entries {
                let field = shape.field(key).expect("a known field");
                walk(item, &field.kind, &at(json!(key)), visit);
            }
        }
        _ => {}
    }
}

/// The root of a document has a kind too.
fn root(document: Document) -> &'static Kind {
    Box::leak(Box::new(Kind::Shape(document.shape())))
}

fn at<'v>(value: &'v mut Value, place: &Place) -> &'v mut Value {
    place.iter().fold(value, |value, step| match step {
        Value::String(key) => &mut value[key.as_str()],
        other => &mut value[usize::try_from(other.as_u64().unwrap()).unwrap()],
    })
}

/// Changes every place of every document with `change`, and asks reader and schema about each result.
fn refused_by_both(change: impl Fn(&mut Value, &'static Kind) -> Vec<Value>) -> usize {
    let mut tried = 0;
    for (path, document, whole) in documents() {
        let validator = validator(document);
        let mut places = Vec::new();
        walk(&whole, root(document), &Vec::new(), &mut |place, kind| places.push((place.clone(), kind)));
        for (place, kind) in places {
            let mut original = whole.clone();
            for changed in change(at(&mut original, &place), kind) {
                let mut broken = whole.clone();
                *at(&mut broken, &place) = changed;
                let told = (reads(document, &path, &broken), validator.is_valid(&broken));
                assert_eq!(told, (false, false), "(reader, schema) take {path} at {place:?}: {broken}");
                tried += 1;
            }
        }
    }
    tried
}

#[test]
fn what_is_whole_is_taken_by_both() {
    for (path, document, value) in documents() {
        assert!(reads(document, &path, &value), "{path}");
        let problems: Vec<String> =
            validator(document).iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(problems, Vec::<String>::new(), "{path}");
    }
}

#[test]
fn values_of_the_wrong_type_are_refused_by_both() {
    let tried = refused_by_both(|_, kind| match kind {
        Kind::Json => vec![],
        Kind::Either(Kind::Json, _) => vec![json!({ "nonsense": 1 })],
        Kind::List(_) | Kind::Some(_) => vec![json!("text"), json!({}), json!(5), Value::Null],
        Kind::Map(..) | Kind::Object => vec![json!("text"), json!([]), json!(5), Value::Null],
        Kind::Shape(_) => vec![json!("text"), json!([]), json!(5), Value::Null],
        Kind::Words | Kind::Text => vec![json!([]), json!({}), Value::Null],
        Kind::Format(_) => vec![json!([]), json!({}), json!(5), json!(true), json!(""), Value::Null],
        Kind::Word(_) => vec![json!([]), json!("nonsense"), json!(5), Value::Null],
        Kind::Truth => vec![json!([]), json!("nonsense"), json!(5), json!("true"), Value::Null],
        Kind::Count | Kind::Small => {
            vec![json!([]), json!("5"), json!(0), json!(-1), json!(1.5), Value::Null]
        }
        Kind::Whole(_) => vec![json!([]), json!("5"), json!(-1), json!(1.5), Value::Null],
        Kind::Duration | Kind::Pause => vec![json!([]), json!("5"), json!(5), json!("5 m"), Value::Null],
        Kind::Usd => vec![json!([]), json!("lots"), json!(-1), json!(0), json!("1,5"), Value::Null],
        Kind::Price => vec![json!([]), json!("lots"), json!(-1), Value::Null],
        Kind::Number => vec![json!([]), json!("5"), Value::Null],
        Kind::Either(..) => vec![json!([]), Value::Null, json!({ "nonsense": 1 })],
    });
    assert!(tried > 500, "{tried}");
}

#[test]
fn unknown_fields_are_refused_by_both() {
    let tried = refused_by_both(|value, kind| match (kind, value) {
        (Kind::Shape(_) | Kind::Either(..), Value::Object(entries)) => {
            let mut more = entries.clone();
            more.insert("nonsense".to_owned(), json!(1));
            vec![Value::Object(more)]
        }
        _ => vec![],
    });
    assert!(tried > 60, "{tried}");
}

#[test]
fn fields_that_are_missing_are_refused_by_both() {
    let tried = refused_by_both(|value, kind| match (kind.shape(), kind, value) {
        (Some(shape), Kind::Shape(_) | Kind::Either(..), Value::Object(entries)) => {
            let without = |names: &[&str]| {
                let kept = entries.iter().filter(|(key, _)| !names.contains(&key.as_str()));
                Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
            };
            let required = shape.fields.iter().filter(|field| field.required.is_some());
            let mut changed: Vec<Value> = required.map(|field| without(&[field.name])).collect();
            if let Choice::One(names) | Choice::Some(names) = shape.choice {
                changed.push(without(names));
            }
            changed
        }
        _ => vec![],
    });
    assert!(tried > 60, "{tried}");
}

#[test]
fn one_choice_is_one_for_both() {
    let tried = refused_by_both(|value, kind| match (kind.shape(), kind, value) {
        (Some(shape), Kind::Shape(_) | Kind::Either(..), Value::Object(entries)) => match shape.choice {
            Choice::One(names) => {
                let example = |name: &str| match &shape.field(name).map(|field| &field.kind) {
                    Some(Kind::Format(format)) => json!(format.examples[0]),
                    Some(Kind::Number) => json!(1),
                    Some(Kind::Some(_)) => json!([1]),
                    _ => json!("text"),
                };
                let all = names.iter().map(|name| ((*name).to_owned(), example(name)));
                vec![Value::Object(entries.clone().into_iter().chain(all).collect())]
            }
            Choice::Free | Choice::Some(_) => vec![],
        },
        _ => vec![],
    });
    assert!(tried > 10, "{tried}");
}

/// Every shape that can be reached from these, with its address to tell apart what is called the same.
fn shapes(roots: impl Iterator<Item = &'static Shape>) -> BTreeMap<usize, &'static Shape> {
    let mut found = BTreeMap::new();
    let mut open: Vec<&'static Shape> = roots.collect();
    while let Some(shape) = open.pop() {
        if found.insert(std::ptr::from_ref(shape) as usize, shape).is_none() {
            open.extend(shape.fields.iter().filter_map(|field| field.kind.shape()));
        }
    }
    found
}

#[test]
fn every_field_that_is_listed_is_read() {
    let files = whole();
    let reading = crate::read(&files, &weir_types::Catalog::default());
    assert!(reading.diagnostics.iter().all(|told| told.code == "spec::not-yet"), "{:?}", reading.diagnostics);
    assert_eq!(lock::Lock::read("weir.lock", &files["weir.lock"]).diagnostics, []);
    let roots = Document::ALL.into_iter().map(Document::shape).chain([&lock::LOCK]);
    let listed: BTreeSet<(usize, &str)> =
        shapes(roots).into_iter().flat_map(|(at, shape)| shape.names().map(move |name| (at, name))).collect();
    let show = |set: &BTreeSet<(usize, &'static str)>| set.iter().map(|(_, name)| *name).collect::<Vec<_>>();
    let asked = asked::all();
    let never: BTreeSet<_> = listed.difference(&asked).copied().collect();
    assert_eq!(show(&never), Vec::<&str>::new(), "listed, but never read");
}

#[test]
fn every_field_is_used_in_the_whole_project() {
    let mut used: BTreeSet<(usize, String)> = BTreeSet::new();
    for (_, document, value) in documents() {
        walk(&value, root(document), &Vec::new(), &mut |place, kind| {
            let mut value = value.clone();
            if let (Some(shape), Value::Object(entries)) = (kind.shape(), at(&mut value, place))
                && matches!(kind, Kind::Shape(_) | Kind::Either(..))
            {
                used.extend(entries.keys().map(|key| (std::ptr::from_ref(shape) as usize, key.clone())));
            }
        });
    }
    for (at, shape) in shapes(Document::ALL.into_iter().map(Document::shape)) {
        for name in shape.names() {
            assert!(used.contains(&(at, name.to_owned())), "{} `{name}` is in no file", shape.what);
        }
    }
}

#[test]
#[should_panic(expected = "an agent has no field `nonsense`")]
fn what_is_not_listed_cannot_be_read() {
    let node = yaml::document(b"nonsense: 1", &mut Findings::new("f")).unwrap();
    let _ = Fields::of(&node, &crate::agent::AGENT).unwrap().get("nonsense");
}

#[test]
fn formats_take_their_own_examples_and_so_does_their_pattern() {
    let mut tried = 0;
    let mut check = |kind: &Kind| {
        let (Kind::Format(format) | Kind::Map(format, _)) = kind else { return };
        for example in format.examples {
            assert!((format.check)("field", example).is_ok(), "{}: {example}", format.what);
            let pattern = regex::Regex::new(format.pattern.unwrap_or_default()).unwrap();
            assert!(pattern.is_match(example), "{}: {example}", format.what);
            tried += 1;
        }
    };
    for shape in shapes(Document::ALL.into_iter().map(Document::shape)).into_values() {
        for field in shape.fields {
            check(&field.kind);
            if let Kind::List(inner) | Kind::Some(inner) | Kind::Map(_, inner) = &field.kind {
                check(inner);
            }
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn advice_about_other_spellings_names_fields_that_exist() {
    for shape in shapes(Document::ALL.into_iter().map(Document::shape)).into_values() {
        for (old, advice) in shape.instead {
            assert!(shape.field(old).is_none(), "{} has `{old}`", shape.what);
            if let Some(new) = advice.strip_prefix("write `") {
                let new = new.split(['`', ':']).next().unwrap();
                assert!(shape.field(new).is_some(), "{} has no `{new}`", shape.what);
            }
        }
    }
}

#[test]
fn every_document_has_a_schema_that_says_what_it_is_for() {
    for document in Document::ALL {
        let schema = schema(document);
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{document:?}");
        assert_eq!(schema["title"], json!(format!("Weir: {}", document.files())));
        let described = schema["properties"].as_object().unwrap().values();
        assert!(described.into_iter().all(|field| field["description"].is_string()), "{document:?}");
    }
}
