//! The dependency graph, as `cargo metadata` tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use crate::{Outcome, process};

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Normal,
    Build,
    Dev,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "dependency",
            Self::Build => "build-dependency",
            Self::Dev => "dev-dependency",
        })
    }
}

/// Our crates under the names of the map, that is without the project's prefix.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    /// Our crates and which of our crates each names, optional dependencies included.
    pub(super) crates: BTreeMap<String, BTreeSet<(String, Kind)>>,
    /// All packages and which packages each compiles, tests aside.
    pub(super) compiled: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Graph {
    /// The graph of the workspace at `root`, with every feature on.
    pub(super) fn load(root: &Path) -> Outcome<Self> {
        let mut cargo = process::cargo();
        cargo.args(["metadata", "--format-version", "1", "--all-features"]).current_dir(root);
        let output = cargo.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err("`cargo metadata` failed".into());
        }
        Self::parse(&output.stdout)
    }

    pub(super) fn parse(metadata: &[u8]) -> Outcome<Self> {
        let metadata: Metadata = serde_json::from_slice(metadata)?;
        let is_ours = |id: &String| metadata.workspace_members.contains(id);
        let names: BTreeMap<&str, &str> = metadata
            .packages
            .iter()
            .map(|package| (package.id.as_str(), map_name(&package.name, is_ours(&package.id))))
            .collect();
        let ours: BTreeSet<&str> =
            metadata.packages.iter().filter(|p| is_ours(&p.id)).map(|p| p.name.as_str()).collect();

        let mut graph = Self::default();
        for package in metadata.packages.iter().filter(|package| is_ours(&package.id)) {
            let edges = package.dependencies.iter().filter(|to| ours.contains(to.name.as_str()));
            let edges = edges.map(|to| (map_name(&to.name, true).to_owned(), kind(to.kind.as_deref())));
            graph.crates.insert(map_name(&package.name, true).to_owned(), edges.collect());
        }
        for node in &metadata.resolve.nodes {
            let Some(from) = names.get(node.id.as_str()) else { continue };
            let to = graph.compiled.entry(from.to_string()).or_default();
            for dependency in &node.deps {
                let is_compiled = dependency.dep_kinds.iter().any(|d| kind(d.kind.as_deref()) != Kind::Dev);
                to.extend(
                    names.get(dependency.pkg.as_str()).filter(|_| is_compiled).map(ToString::to_string),
                );
            }
        }
        Ok(graph)
    }
}

/// `weir-journal` is `journal` on the map; a crate of someone else keeps its name.
fn map_name(package: &str, is_ours: bool) -> &str {
    package.strip_prefix("weir-").filter(|_| is_ours).unwrap_or(package)
}

fn kind(word: Option<&str>) -> Kind {
    match word {
        Some("dev") => Kind::Dev,
        Some("build") => Kind::Build,
        _ => Kind::Normal,
    }
}
