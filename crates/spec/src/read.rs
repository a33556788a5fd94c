//! All files of a project at once: which file is what, each read, and then whether they fit together.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Catalog, IDENTITY_FILES};

use crate::agent::AgentSpec;
use crate::diagnostic::{Diagnostic, Findings, Span, sort};
use crate::source::{FILE_BYTES_MAX, Source};
use crate::sources::{AgentSource, Identity, Reading, Sources};
use crate::{agent, loops, project, resolve, scenario, script, secret};

/// Reads the files of a project: their content by path, from the project's directory and with `/`. Files that mean
/// nothing here are passed over.
///
/// `catalog` holds the models that can be named; the project may add to it.
pub fn read(files: &BTreeMap<String, Vec<u8>>, catalog: &Catalog) -> Reading {
    let mut reader = Reader::default();
    for (path, bytes) in files {
        reader.file(path, bytes);
    }
    let mut sources = reader.sources;
    sources.catalog = catalog.clone();
    for (name, card) in &sources.project.models {
        sources.catalog.insert(name.clone(), card.clone());
    }
    let mut diagnostics = resolve::resolve(&mut sources, &reader.names, files, reader.diagnostics);
    sort(&mut diagnostics);
    Reading { sources, diagnostics }
}

/// What is there, whether or not it can be read.
#[derive(Default)]
pub(crate) struct Names {
    /// Directories with a spec.
    pub(crate) agents: BTreeSet<String>,
    /// Directories with an identity file, and that file.
    pub(crate) identified: BTreeMap<String, String>,
    /// Whether anything at all is in `agents`.
    pub(crate) any_agent_file: bool,
    /// Scripts of models.
    pub(crate) scripts: BTreeSet<String>,
    /// Stems of script tools.
    pub(crate) tools: BTreeSet<String>,
    /// Directories with a `SKILL.md`.
    pub(crate) skills: BTreeSet<String>,
    /// Scripts of projections.
    pub(crate) projections: BTreeSet<String>,
}

/// What a file is for.
enum Place<'p> {
    Project,
    Agent(&'p str),
    Identity(&'p str, &'static str),
    Loop(&'p str),
    Script(&'p str),
    Test(&'p str),
    Policy,
    Tool(&'p str),
    Skill(&'p str),
    Projection,
    /// Nobody would read it, and somebody meant it to be read.
    Misplaced {
        message: String,
        help: String,
    },
    /// Nothing of ours.
    Other,
}

#[derive(Default)]
struct Reader {
    sources: Sources,
    names: Names,
    diagnostics: Vec<Diagnostic>,
    identities: BTreeMap<String, Vec<Identity>>,
}

impl Reader {
    fn file(&mut self, path: &str, bytes: &[u8]) {
        let mut findings = Findings::new(path);
        self.names.any_agent_file |= path.starts_with("agents/");
        match place(path) {
            Place::Project => self.sources.project = project::read(bytes, &mut findings).unwrap_or_default(),
            Place::Agent(name) => {
                self.names.agents.insert(name.to_owned());
                if let Some(spec) = agent::read(bytes, &mut findings) {
                    self.agent(name, spec);
                }
            }
            Place::Identity(home, name) => {
                self.names.identified.entry(home.to_owned()).or_insert_with(|| path.to_owned());
                if let Some(text) = prose(bytes, &mut findings) {
                    self.identity(home, Identity { name, text });
                }
            }
            Place::Loop(name) => {
                let read = loops::read(bytes, &mut findings);
                self.sources.loops.extend(read.map(|spec| (name.to_owned(), spec)));
            }
            Place::Script(name) => {
                self.names.scripts.insert(name.to_owned());
                let read = script::read(bytes, &mut findings);
                self.sources.scripts.extend(read.map(|script| (name.to_owned(), script)));
            }
            Place::Test(name) => {
                let read = scenario::read(bytes, &mut findings);
                self.sources.tests.extend(read.map(|spec| (name.to_owned(), spec)));
            }
            Place::Policy => {
                let text = prose(bytes, &mut findings);
                self.sources.policies.extend(text.map(|text| (path.to_owned(), text)));
            }
            Place::Tool(stem) => drop(self.names.tools.insert(stem.to_owned())),
            Place::Skill(directory) => drop(self.names.skills.insert(directory.to_owned())),
            Place::Projection => drop(self.names.projections.insert(path.to_owned())),
            Place::Misplaced { message, help } => findings.add("spec::misplaced", Span::START, message, help),
            Place::Other => return,
        }
        self.diagnostics.extend(findings.finish());
    }

    fn agent(&mut self, name: &str, spec: AgentSpec) {
        let identity = self.identities.remove(name).unwrap_or_default();
        self.sources.agents.insert(name.to_owned(), AgentSource { spec, model: None, identity });
    }

    /// Identity files come before and after the spec they are beside, and in any order.
    fn identity(&mut self, home: &str, file: Identity) {
        let beside = match self.sources.agents.get_mut(home) {
            Some(agent) => &mut agent.identity,
            None => self.identities.entry(home.to_owned()).or_default(),
        };
        beside.push(file);
        beside.sort_by_key(|file| IDENTITY_FILES.iter().position(|name| *name == file.name));
    }
}

/// The text of a file of words: without a byte order mark, and with the same line ends everywhere.
fn prose(bytes: &[u8], findings: &mut Findings) -> Option<String> {
    let source = Source::prose(bytes, FILE_BYTES_MAX, findings)?;
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    for problem in secret::check_secrets(findings.file(), text) {
        findings.push(problem);
    }
    Some(source.text.replace("\r\n", "\n"))
}

/// What a file is for, by its path.
fn place(path: &str) -> Place<'_> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["weir.yaml"] => Place::Project,
        ["weir.yml"] => renamed("weir.yml", "weir.yaml"),
        ["lush.yaml" | "lush.yml"] => reference(path, "weir.yaml"),
        ["skills.lock" | "lush.lock"] => reference(path, "weir.lock"),
        ["agents", home, "spec.yaml"] => Place::Agent(home),
        ["agents", home, "spec.yml"] => renamed(path, &format!("agents/{home}/spec.yaml")),
        ["agents", home, "agent.yaml" | "agent.yml"] => renamed(path, &format!("agents/{home}/spec.yaml")),
        ["agents", file] if is_yaml(file) => renamed(
            path,
            &format!("agents/{}/spec.yaml", file.rsplit_once('.').map_or(*file, |(stem, _)| stem)),
        ),
        ["agents", home, file] => identity(path, home, file),
        ["loops", file] => stem(path, file, Place::Loop),
        ["models", file] => stem(path, file, Place::Script),
        ["tests", file] => stem(path, file, Place::Test),
        ["policies", file] if file.ends_with(".cedar") => Place::Policy,
        ["projections", file] if file.ends_with(".ts") => Place::Projection,
        ["tools", file] => file.strip_suffix(".ts").map_or(Place::Other, Place::Tool),
        ["agents", _, inner, "spec.yaml"] if *inner != "skills" => {
            renamed(path, &format!("agents/{inner}/spec.yaml"))
        }
        [home @ ("loops" | "models"), .., file] if is_yaml(file) => {
            let stem = file.rsplit_once('.').map_or(*file, |(stem, _)| stem);
            renamed(path, &format!("{home}/{stem}.yaml"))
        }
        [.., "skills", _, "SKILL.md"] => Place::Skill(path.strip_suffix("/SKILL.md").unwrap_or(path)),
        _ => Place::Other,
    }
}

fn is_yaml(file: &str) -> bool {
    file.ends_with(".yaml") || file.ends_with(".yml")
}

fn stem<'p>(path: &'p str, file: &'p str, place: fn(&'p str) -> Place<'p>) -> Place<'p> {
    match file.rsplit_once('.') {
        Some((stem, "yaml")) => place(stem),
        Some((_, "yml")) => renamed(path, &format!("{}.yaml", path.strip_suffix(".yml").unwrap_or(path))),
        _ => Place::Other,
    }
}

fn identity<'p>(path: &str, home: &'p str, file: &str) -> Place<'p> {
    if let Some(name) = IDENTITY_FILES.iter().find(|name| **name == file) {
        return Place::Identity(home, name);
    }
    match IDENTITY_FILES.iter().find(|name| name.eq_ignore_ascii_case(file)) {
        Some(name) => renamed(path, &format!("agents/{home}/{name}")),
        None => Place::Other,
    }
}

fn renamed<'p>(path: &str, right: &str) -> Place<'p> {
    let message = format!("`{path}` is not read");
    Place::Misplaced { message, help: format!("rename it to `{right}`") }
}

fn reference<'p>(path: &str, right: &str) -> Place<'p> {
    let message = format!("`{path}` is what Lush calls it");
    let help = match right {
        "weir.lock" => "delete it; `weir lock` writes `weir.lock`".to_owned(),
        _ => format!("rename it to `{right}`"),
    };
    Place::Misplaced { message, help }
}
