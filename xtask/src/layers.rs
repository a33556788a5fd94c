//! Checks the crates' dependencies against the map: down, never up or sideways.
//!
//! The map is complete from the start, so that a crate is checked from its first day. A crate that is not on it is a
//! problem too: decide where it belongs, then add it to [`MAP`] and to `ARCHITECTURE.md`.

mod graph;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;

use self::graph::{Graph, Kind};
use crate::Outcome;

/// From the bottom to the top, with the two kinds of crates that no product contains at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Base,
    /// What several crates need and no library does as they need it.
    Floor,
    Ports,
    Adapters,
    Services,
    Engine,
    Edge,
    Entry,
    TestOnly,
    Tools,
}

const MAP: &[(Layer, &[&str])] = &[
    (Layer::Base, &["types", "events"]),
    (Layer::Floor, &["support"]),
    (Layer::Ports, &["journal", "blobs"]),
    (Layer::Adapters, &["journal-sqlite", "journal-postgres"]),
    (
        Layer::Services,
        &[
            "kernel",
            "policy",
            "spec",
            "models",
            "tools",
            "mcp",
            "secrets",
            "workspace",
            "knowledge",
            "observe",
        ],
    ),
    (Layer::Engine, &["engine", "compiler"]),
    (Layer::Edge, &["server"]),
    (Layer::Entry, &["cli"]),
    (Layer::TestOnly, &["powercut"]),
    (Layer::Tools, &["xtask"]),
];

/// Crates whose answers depend on nothing but their arguments.
const PURE: &[&str] = &["types", "events", "kernel", "policy", "spec"];

/// What none of [`PURE`] may compile, however far down: each stands for a kind of I/O.
const IMPURE: &[&str] = &["tokio", "rusqlite", "reqwest"];

/// Something that does not fit the map.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    Unknown { name: String },
    Edge { from: String, to: String, kind: Kind, why: &'static str },
    Impure { path: Vec<String> },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => {
                write!(f, "`{name}` is not on the map: give it a layer in MAP, xtask/src/layers.rs")
            }
            Self::Edge { from, to, kind, why } => write!(f, "`{from}` → `{to}` ({kind}): {why}"),
            Self::Impure { path } => {
                write!(f, "`{}` does no I/O, yet compiles {}", path[0], path[1..].join(" → "))
            }
        }
    }
}

pub(crate) fn run(root: &Path) -> Outcome {
    let graph = Graph::load(root)?;
    let problems = check(&graph);
    for problem in &problems {
        eprintln!("layers: {problem}");
    }
    match problems.len() {
        0 => println!("layers: {} crates, every dependency points down", graph.crates.len()),
        1 => return Err("one dependency does not fit the map".into()),
        many => return Err(format!("{many} dependencies do not fit the map").into()),
    }
    Ok(())
}

/// Everything in `graph` that does not fit the map.
fn check(graph: &Graph) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, edges) in &graph.crates {
        if layer(name).is_none() {
            problems.push(Problem::Unknown { name: name.clone() });
            continue;
        }
        for &(ref to, kind) in edges {
            // A target that is not on the map is reported as itself.
            if layer(to).is_some()
                && let Err(why) = may_use(name, to, kind)
            {
                problems.push(Problem::Edge { from: name.clone(), to: to.clone(), kind, why });
            }
        }
    }
    for pure in PURE {
        problems.extend(IMPURE.iter().filter_map(|impure| shortest_path(graph, pure, impure)));
    }
    problems
}

fn layer(name: &str) -> Option<Layer> {
    MAP.iter().find(|(_, names)| names.contains(&name)).map(|&(layer, _)| layer)
}

fn may_use(from: &str, to: &str, kind: Kind) -> Result<(), &'static str> {
    let (Some(above), Some(below)) = (layer(from), layer(to)) else { return Ok(()) };
    if kind == Kind::Dev {
        // A test may run on a real engine and lose power; otherwise it sees what its crate sees. A crate may name
        // itself, to turn on a feature for its own tests.
        let for_tests = matches!(below, Layer::Adapters | Layer::TestOnly) && above != Layer::Tools;
        if for_tests || from == to {
            return Ok(());
        }
    }
    match (above, below) {
        (Layer::Tools, _) => Err("the tools build before everything else and use none of it"),
        (_, Layer::Tools) => Err("the tools are not part of the product"),
        (_, Layer::TestOnly) => Err("a test-only crate is for dev-dependencies"),
        (Layer::TestOnly, _) => Err("a test-only crate stands alone"),
        (Layer::Entry, Layer::Adapters) => Ok(()),
        (Layer::Base | Layer::Ports, Layer::Adapters) => Err("dependencies point down, never up"),
        (_, Layer::Adapters) => Err("only `cli` names adapters"),
        (Layer::Ports, Layer::Ports) if (from, to) == ("journal", "blobs") => Ok(()),
        (Layer::Base, Layer::Base) if (from, to) == ("events", "types") => Ok(()),
        (above, below) if above == below => Err("crates of one layer are unaware of one another"),
        (above, below) if above < below => Err("dependencies point down, never up"),
        _ => Ok(()),
    }
}

/// How `from` comes to compile `to`, through normal and build dependencies.
fn shortest_path(graph: &Graph, from: &str, to: &str) -> Option<Problem> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(here) = queue.pop_front() {
        if here == to {
            let mut path = vec![to.to_owned()];
            let mut step = to;
            while let Some(previous) = came_from.get(step).filter(|_| step != from) {
                path.insert(0, previous.to_string());
                step = previous;
            }
            return Some(Problem::Impure { path });
        }
        for next in graph.compiled.get(here).into_iter().flatten() {
            if next != from && !came_from.contains_key(next.as_str()) {
                came_from.insert(next, here);
                queue.push_back(next);
            }
        }
    }
    None
}
