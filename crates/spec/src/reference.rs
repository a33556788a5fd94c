//! `docs/specs.md`: every field of every file, from the same description that the reader goes by.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use weir_types::IDENTITY_FILES;

use crate::CODES;
use crate::agent::AGENT;
use crate::loops::LOOP;
use crate::project::PROJECT;
use crate::scenario::TESTS;
use crate::script::SCRIPT;
use crate::shape::{Choice, Kind, PLANNED, Shape};

const HEAD: &str = "\
# What the files of a project say

Every field of every file, as `weir build` reads it. `weir schema FILE` prints the same as JSON Schema; `weir init` makes a project
that uses the most common ones. Unknown fields are errors. Made by `WEIR_BLESS=1 cargo nextest run -p weir-spec reference`.
";

/// The files, each with its shape and a sentence about where it is.
static FILES: [(&str, &Shape); 5] = [
    ("weir.yaml", &PROJECT),
    ("agents/NAME/spec.yaml", &AGENT),
    (LOOPS, &LOOP),
    ("models/NAME.yaml", &SCRIPT),
    ("tests/NAME.yaml", &TESTS),
];

/// Files that are checked and kept, and that nothing runs yet.
const LOOPS: &str = "loops/NAME.yaml";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut known = BTreeMap::new();
    for (file, shape) in FILES {
        let _ = write!(page, "\n## `{file}`\n");
        if file == LOOPS {
            let _ =
                write!(page, "\n**{PLANNED}** A loop is checked and kept in the build; it never fires.\n");
        }
        section(shape, &mut page);
        if file.starts_with("agents/") {
            let files = list(&IDENTITY_FILES);
            let _ = write!(
                page,
                "\nBeside it, all optional, who the agent is: {files}. They come first in its prompt.\n"
            );
        }
        for inner in inner(shape, &mut known) {
            let _ = write!(page, "\n### {}\n", title(inner));
            section(inner, &mut page);
        }
    }
    page.push_str("\n## Problems\n\nEvery code that `weir check` can report about a file:\n\n| code | what it is about |\n| --- | --- |\n");
    for (code, about) in CODES {
        let _ = writeln!(page, "| `{code}` | {} |", cell(about));
    }
    page
}

fn section(shape: &Shape, page: &mut String) {
    let _ = write!(page, "\n{}", shape.doc);
    match shape.choice {
        Choice::Free => {}
        Choice::One(names) => drop(write!(page, " Exactly one of {}.", list(names))),
        Choice::Some(names) => drop(write!(page, " At least one of {}.", list(names))),
    }
    page.push_str("\n\n| field | value | |\n| --- | --- | --- |\n");
    for field in shape.fields {
        let needed = if field.required.is_some() { " (required)" } else { "" };
        let planned = if field.is_planned { format!("**{PLANNED}** ") } else { String::new() };
        let _ = writeln!(
            page,
            "| `{}`{needed} | {} | {planned}{} |",
            field.name,
            cell(&words(&field.kind)),
            cell(field.doc)
        );
    }
}

/// The mappings within a mapping, each once on the whole page, in the order in which they are met.
///
/// Two that differ have different titles: readers look a mapping up by its title.
fn inner(shape: &'static Shape, known: &mut BTreeMap<String, &'static Shape>) -> Vec<&'static Shape> {
    let mut found = Vec::new();
    for shape in shape.fields.iter().filter_map(|field| field.kind.shape()) {
        match known.insert(title(shape), shape) {
            Some(other) => assert!(std::ptr::eq(other, shape), "two mappings are called {}", shape.what),
            None => {
                found.push(shape);
                found.extend(inner(shape, known));
            }
        }
    }
    found
}

/// `a rule` is about rules; `` `limits` `` is about itself.
fn title(shape: &Shape) -> String {
    let what = shape.what.trim_end_matches(',');
    let bare = what.strip_prefix("a ").or_else(|| what.strip_prefix("an ")).unwrap_or(what);
    let mut letters = bare.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a value may be.
fn words(kind: &Kind) -> String {
    match kind {
        Kind::Words | Kind::Text => "text".to_owned(),
        Kind::Format(format) => match format.examples {
            [] => format.what.to_owned(),
            [first, ..] => format!("{}, like `{first}`", format.what),
        },
        Kind::Word(words) => words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Truth => "`true` or `false`".to_owned(),
        Kind::Count | Kind::Small => "a whole number from 1".to_owned(),
        Kind::Whole(max) if *max < 1_000_000 => format!("a whole number up to {max}"),
        Kind::Whole(_) => "a whole number".to_owned(),
        Kind::Duration | Kind::Pause => "a span of time, like `90s` or `1h30m`".to_owned(),
        Kind::Usd | Kind::Price => "dollars, like `0.50`".to_owned(),
        Kind::Number => "a number".to_owned(),
        Kind::Json => "any value".to_owned(),
        Kind::Object => "a mapping of any values".to_owned(),
        Kind::List(item) | Kind::Some(item) => format!("a list: {}", words(item)),
        Kind::Map(key, value) => format!("a mapping from {} to: {}", key.what, words(value)),
        Kind::Shape(shape) => format!("a mapping: *{}*", title(shape)),
        Kind::Either(short, shape) => format!("{}, or a mapping: *{}*", words(short), title(shape)),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Text that cannot end a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_page_about_specs_is_what_the_reader_goes_by() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/specs.md");
    let page = page();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == page, "docs/specs.md is old: run WEIR_BLESS=1 cargo nextest run -p weir-spec reference");
}
