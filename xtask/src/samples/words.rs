//! The vocabulary of the sample corpus, and the templates it fills.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::random::Random;

/// One sentence template a line.
const SENTENCES: &str = include_str!("prose.txt");

/// Code, listings, logs and documents, between lines of `=====`.
const FRAGMENTS: &str = include_str!("fragments.txt");

#[rustfmt::skip]
const NOUNS: &[&str] = &[
    "account", "address", "agent", "answer", "approval", "article", "attachment", "backup", "balance", "batch", "branch",
    "budget", "build", "button", "cache entry", "calendar", "call", "certificate", "channel", "chapter", "client",
    "column", "comment", "commit", "contract", "counter", "customer", "database", "deadline", "delivery", "department",
    "deployment", "device", "directory", "discount", "document", "domain", "draft", "email", "employee", "endpoint",
    "entry", "error", "event", "export", "feature", "field", "file", "folder", "function", "group", "header", "image",
    "index", "interface", "invoice", "issue", "item", "job", "key", "label", "language", "layer", "library", "license",
    "link", "list", "location", "lock", "log line", "machine", "manager", "member", "message", "meeting", "metric",
    "migration", "model", "module", "name", "network", "node", "note", "notification", "number", "object", "offer",
    "order", "owner", "package", "page", "parameter", "partner", "password", "patch", "payment", "permission", "person",
    "picture", "policy", "position", "price", "problem", "process", "product", "profile", "project", "promise", "query",
    "question", "queue", "record", "region", "release", "reminder", "report", "request", "resource", "response",
    "result", "review", "role", "room", "route", "row", "rule", "schedule", "schema", "script", "section", "server",
    "service", "session", "setting", "shipment", "signal", "snapshot", "source", "stream", "string", "student",
    "subscription", "supplier", "table", "task", "team", "template", "test", "thread", "ticket", "token", "tool",
    "transaction", "transfer", "translation", "trigger", "type", "update", "upload", "user", "value", "variable",
    "vehicle", "version", "volume", "warning", "window", "workflow", "year",
];

#[rustfmt::skip]
const QUALIFIERS: &[&str] = &[
    "active", "automatic", "available", "background", "common", "complete", "current", "customer", "daily", "default",
    "different", "empty", "external", "final", "first", "general", "hidden", "important", "internal", "last", "local",
    "main", "missing", "monthly", "national", "new", "next", "old", "open", "optional", "original", "other", "parent",
    "pending", "possible", "previous", "primary", "private", "public", "recent", "remote", "required", "second",
    "selected", "shared", "single", "special", "standard", "temporary", "weekly",
];

#[rustfmt::skip]
const PEOPLE: &[&str] = &[
    "Alex Smith", "Anna Müller", "Ben Johnson", "Carlos Garcia", "Chen Wei", "Daniel Brown", "Emma Wilson", "Fatima Khan",
    "Grace Lee", "Hans Weber", "Ivan Petrov", "James Taylor", "Jane Doe", "Julia Schneider", "Kenji Tanaka", "Laura Rossi",
    "Maria Silva", "Michael Davis", "Nina Patel", "Olivia Martin", "Peter Jones", "Sarah Miller", "Sofia Lopez", "Tom Clark",
];

#[rustfmt::skip]
const PLACES: &[&str] = &[
    "Amsterdam", "Berlin", "Boston", "California", "Chicago", "Dublin", "France", "Germany", "India", "Japan", "London",
    "Madrid", "New York", "Paris", "San Francisco", "Singapore", "Spain", "Sydney", "Tokyo", "Toronto", "the United States",
    "the north of the country", "Zurich",
];

#[rustfmt::skip]
const VERBS: &[&str] = &[
    "add", "apply", "build", "cancel", "check", "clear", "close", "compute", "connect", "convert", "copy", "count", "create",
    "delete", "fetch", "filter", "find", "format", "get", "handle", "init", "insert", "is", "list", "load", "make", "merge",
    "open", "parse", "print", "process", "publish", "read", "remove", "render", "request", "reset", "resolve", "run", "save",
    "search", "send", "set", "sort", "start", "stop", "update", "validate", "verify", "wait_for", "write",
];

/// A sentence that reads like English for a few words at a time.
///
/// It follows one of the sentences of the prose, and at every word may go on in another sentence that has the same word.
/// So hardly any sentence is in the corpus twice, and the dictionary learns turns of phrase instead of sentences.
pub(super) fn sentence(random: &mut Random) -> String {
    const WORDS_MAX: usize = 40;
    let mut here = PROSE.starts[random.below(PROSE.starts.len())];
    let mut sentence = PROSE.words[here].to_owned();
    for _ in 0..WORDS_MAX {
        let word = PROSE.words[here];
        if ends_sentence(word) {
            break;
        }
        if random.one_in(4) {
            let same = &PROSE.places[word];
            here = same[random.below(same.len())];
        }
        here += 1;
        sentence.push(' ');
        sentence.push_str(PROSE.words[here]);
    }
    fill(&sentence, random)
}

struct Prose {
    words: Vec<&'static str>,
    /// Where sentences start.
    starts: Vec<usize>,
    /// Where each word stands.
    places: HashMap<&'static str, Vec<usize>>,
}

static PROSE: LazyLock<Prose> = LazyLock::new(|| {
    let words: Vec<&str> = SENTENCES.split_whitespace().collect();
    let starts = (0..words.len()).filter(|&n| n == 0 || ends_sentence(words[n - 1])).collect();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (n, &word) in words.iter().enumerate() {
        places.entry(word).or_default().push(n);
    }
    Prose { words, starts, places }
});

fn ends_sentence(word: &str) -> bool {
    word.ends_with(['.', '?'])
}

/// Some sentences, in paragraphs.
pub(super) fn text(random: &mut Random, sentences: usize) -> String {
    let mut text = String::new();
    for n in 0..sentences {
        text.push_str(match n {
            0 => "",
            _ if random.one_in(5) => "\n\n",
            _ => " ",
        });
        text.push_str(&sentence(random));
    }
    text
}

/// A piece of code, a listing, a log or a document.
pub(super) fn fragment(random: &mut Random) -> String {
    let all: Vec<&str> = FRAGMENTS.split("=====\n").collect();
    fill(random.pick(&all), random)
}

/// `%word%`-like slots filled at random.
pub(super) fn fill(template: &str, random: &mut Random) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    for (n, piece) in template.split('%').enumerate() {
        // Outside and inside of a slot take turns; a template has no other percent signs.
        if n % 2 == 0 { filled.push_str(piece) } else { filled.push_str(&slot(piece, random)) }
    }
    filled
}

fn slot(name: &str, random: &mut Random) -> String {
    match name {
        "noun" => random.pick(NOUNS).to_string(),
        "thing" => format!("{} {}", random.pick(QUALIFIERS), random.pick(NOUNS)),
        "person" => random.pick(PEOPLE).to_string(),
        "place" => random.pick(PLACES).to_string(),
        "word" => word(random),
        "ident" => ident(random),
        "IDENT" => ident(random).to_uppercase(),
        "Type" => [word(random), word(random)].map(|word| capital(&word)).concat(),
        "camel" => format!("{}{}", random.pick(VERBS).replace('_', ""), capital(&word(random))),
        "date" => date(random),
        "hour" => (10 + random.below(14)).to_string(),
        "number" => (2 + random.below(900)).to_string(),
        "sentence" => sentence(random),
        other => unreachable!("the templates have no slot `{other}`"),
    }
}

/// A day in ISO form.
pub(super) fn date(random: &mut Random) -> String {
    format!("20{}-{:02}-{:02}", 23 + random.below(5), 1 + random.below(12), 1 + random.below(28))
}

/// One lower-case word.
pub(super) fn word(random: &mut Random) -> String {
    let noun = random.pick(NOUNS);
    noun.split(' ').next().unwrap_or(noun).to_owned()
}

/// A name in snake case.
pub(super) fn ident(random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("{}_{}", random.pick(VERBS), word(random)),
        1 => format!("{}_{}", word(random), word(random)),
        _ => word(random),
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}
