//! `cargo xtask advisories`: the versions of Cargo.lock held against the RustSec database, where a copy of it is at hand.
//!
//! The database is a git repository, and no registry carries it, so that a run that reaches registries alone cannot fetch it. Nothing is fetched here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};

use crate::Outcome;

const HELP: &str =
    "clone it: `git clone --depth 1 https://github.com/RustSec/advisory-db target/advisory-db`";

/// What there is to know of one advisory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Advisory {
    id: String,
    package: String,
    title: String,
    /// `unmaintained`, `unsound` or `notice`: no vulnerability.
    informational: Option<String>,
    is_withdrawn: bool,
    /// Versions that are not concerned.
    fine: Vec<VersionReq>,
}

/// Fails when a locked version has a known vulnerability, and tells what else is known.
pub(crate) fn run(root: &Path, database: Option<PathBuf>) -> Outcome {
    let database = database.unwrap_or_else(|| root.join("target/advisory-db"));
    let locked = locked(&std::fs::read_to_string(root.join("Cargo.lock"))?);
    let crates = database.join("crates");
    if !crates.is_dir() {
        return Err(format!("there is no advisory database at `{}`; {HELP}", database.display()).into());
    }
    let (mut looked_at, mut vulnerable) = (0, 0);
    for (package, versions) in &locked {
        let Ok(files) = std::fs::read_dir(crates.join(package)) else { continue };
        for file in files {
            let file = file?.path();
            let Some(advisory) = read(&std::fs::read_to_string(&file)?)? else {
                return Err(format!("`{}` is no advisory", file.display()).into());
            };
            looked_at += 1;
            for version in versions.iter().filter(|version| advisory.concerns(package, version)) {
                let kind = advisory.informational.as_deref().unwrap_or("vulnerability");
                println!("{kind}: {package} {version}: {} {}", advisory.id, advisory.title);
                vulnerable += u32::from(advisory.informational.is_none());
            }
        }
    }
    println!("{} packages, {looked_at} advisories about them", locked.len());
    match vulnerable {
        0 => Ok(()),
        count => Err(format!("{count} known vulnerabilities in locked versions").into()),
    }
}

impl Advisory {
    fn concerns(&self, package: &str, version: &Version) -> bool {
        self.package == package && !self.is_withdrawn && !self.fine.iter().any(|fine| fine.matches(version))
    }
}

/// The packages of a Cargo.lock and their versions.
fn locked(lock: &str) -> BTreeMap<String, Vec<Version>> {
    let mut found: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    for part in lock.split("[[package]]").skip(1) {
        let field =
            |name: &str| part.lines().find_map(|line| text(line.strip_prefix(name)?.strip_prefix(" = ")?));
        // A package of this workspace has no source.
        if let (Some(name), Some(version), Some(_)) = (field("name"), field("version"), field("source"))
            && let Ok(version) = version.parse()
        {
            found.entry(name).or_default().push(version);
        }
    }
    found
}

/// Reads the TOML at the head of an advisory, as far as it matters here.
fn read(file: &str) -> Outcome<Option<Advisory>> {
    let Some((toml, rest)) = file.split_once("```toml").and_then(|(_, rest)| rest.split_once("```")) else {
        return Ok(None);
    };
    let title = rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    let mut advisory = Advisory { title: title.trim().to_owned(), ..Advisory::default() };
    let mut section = "";
    let mut lines = toml.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let mut value = value.trim().to_owned();
        // A list may go over several lines.
        while value.starts_with('[') && !value.contains(']') {
            let Some(more) = lines.next() else { break };
            value.push_str(more.trim());
        }
        match (section, name.trim()) {
            ("advisory", "id") => advisory.id = text(&value).unwrap_or_default(),
            ("advisory", "package") => advisory.package = text(&value).unwrap_or_default(),
            ("advisory", "informational") => advisory.informational = text(&value),
            ("advisory", "withdrawn") => advisory.is_withdrawn = true,
            ("versions", "patched" | "unaffected") => {
                for requirement in value.split('"').skip(1).step_by(2) {
                    advisory.fine.push(requirement.parse()?);
                }
            }
            _ => {}
        }
    }
    Ok((!advisory.id.is_empty() && !advisory.package.is_empty()).then_some(advisory))
}

fn text(value: &str) -> Option<String> {
    value.trim().strip_prefix('"')?.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2020-0071\"\npackage = \"time\"\ndate = \"2020-11-18\"\n\n\
        [affected]\nos = [\"linux\"]\n\n[versions]\npatched = [\n    \">= 0.2.23\",\n]\nunaffected = [\"= 0.2.0\", \"< 0.1.0\"]\n```\n\n# A fault\n\nWords.\n";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_held_against_an_advisory() {
        let advisory = read(ADVISORY).unwrap().unwrap();
        assert_eq!((&*advisory.id, &*advisory.title), ("RUSTSEC-2020-0071", "A fault"));
        for (tried, concerned) in
            [("0.1.45", true), ("0.2.22", true), ("0.2.23", false), ("0.2.0", false), ("0.0.9", false)]
        {
            assert_eq!(advisory.concerns("time", &version(tried)), concerned, "{tried}");
        }
        assert!(!advisory.concerns("chrono", &version("0.2.22")));
        let withdrawn = ADVISORY.replace("date =", "withdrawn = \"2021-01-01\"\ndate =");
        assert!(!read(&withdrawn).unwrap().unwrap().concerns("time", &version("0.2.22")));
        let unmaintained = ADVISORY.replace("date =", "informational = \"unmaintained\"\ndate =");
        assert_eq!(read(&unmaintained).unwrap().unwrap().informational.as_deref(), Some("unmaintained"));
        assert_eq!(read("no toml").unwrap(), None);
    }

    /// A vulnerable version fails, a patched one does not, and without a database nothing is called fine.
    #[test]
    fn a_lock_file_is_held_against_a_database() {
        let root = std::env::temp_dir().join(format!("weir-advisories-{}", std::process::id()));
        let lock = |version: &str| {
            let text = format!(
                "version = 4\n\n[[package]]\nname = \"time\"\nversion = \"{version}\"\nsource = \"registry\"\n"
            );
            std::fs::create_dir_all(&root).unwrap();
            std::fs::write(root.join("Cargo.lock"), text).unwrap();
            run(&root, None).map_err(|error| error.to_string())
        };
        assert!(lock("0.2.22").unwrap_err().contains("there is no advisory database"));
        let place = root.join("target/advisory-db/crates/time");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("RUSTSEC-2020-0071.md"), ADVISORY).unwrap();
        let told = ["0.2.22", "0.2.23"].map(lock);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(told, [Err("1 known vulnerabilities in locked versions".to_owned()), Ok(())]);
    }
}
