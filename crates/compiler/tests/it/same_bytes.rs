//! The same project is the same bytes, wherever and however it is built.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use weir_compiler::{Mode, Options, compile};
use weir_types::{Catalog, Hash};

use crate::project::Project;

/// Set in the environment of the process that only builds: where the project is.
const BUILDS: &str = "WEIR_TEST_BUILDS";

const TOOL: &str = "import { defineTool } from 'weir';\nimport { unit } from './lib/unit';\nexport default defineTool({ description: 'd', parameters: { b: { type: 'string' }, a: { type: 'number' } }, execute: () => unit });\n";

fn files() -> Vec<(&'static str, String)> {
    let spec = |name: &str, extra: &str| {
        format!("name: {name}\nmodel: offline/echo\ndescription: Ärger mit İ und ß.\n{extra}")
    };
    vec![
        ("weir.yaml", "project: acme\nservice_accounts: [{ name: bot }]\n".to_owned()),
        ("agents/a/spec.yaml", spec("a", "tools: [{ name: tools/x, access: read }, { server: \"weir://b\" }]\nskills: [./skills/s]\n")),
        ("agents/a/SOUL.md", "Kind.\n".to_owned()),
        ("agents/a/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nDo.\n".to_owned()),
        ("agents/a/skills/s/data.bin", "1".to_owned()),
        ("agents/b/spec.yaml", spec("b", "")),
        (
            "loops/daily.yaml",
            "name: daily\nschedule: \"0 9 * * *\"\ntimezone: Europe/Berlin\nagent: a\nrun_as: serviceaccount:bot\ninstruction: Go.\n"
                .to_owned(),
        ),
        ("policies/p.cedar", "permit(principal, action, resource);\n".to_owned()),
        ("tools/x.ts", TOOL.to_owned()),
        ("tools/lib/unit.ts", "export const unit: number = 1;\n".to_owned()),
        ("tests/t.yaml", "agent: a\nscenarios: [{ name: s, steps: [{ say: Hi }] }]\n".to_owned()),
        ("README.md", "Read me.\n".to_owned()),
    ]
}

fn project(files: &[(&'static str, String)]) -> Project {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Project::new(&files)
}

async fn hash(project: &Project) -> Hash {
    let built = project.build(Mode::Offline).await;
    assert!(built.diagnostics.iter().all(|told| told.code == "spec::not-yet"), "{:?}", built.diagnostics);
    built.built.unwrap().hash
}

/// Not a test of its own: the process that the next one starts in other surroundings.
#[tokio::test]
async fn builds_in_other_surroundings() {
    let Some(directory) = std::env::var_os(BUILDS) else { return };
    let options = Options { mode: Mode::Offline, ..Options::check() };
    let (directory, catalog) = (Path::new(&directory), Catalog::builtin().unwrap());
    let built = compile(directory, &catalog, &options, &weir_compiler::Nobody, &()).await;
    weir_compiler::save(directory, &directory.join(".weir"), &built).unwrap();
}

/// Builds in a process of its own, and says what the manifest is called.
fn hash_in_process(directory: &Path, surroundings: &str) -> Hash {
    let this = std::env::current_exe().unwrap();
    let command = format!(
        "{surroundings} exec {} --exact same_bytes::builds_in_other_surroundings --nocapture",
        this.display()
    );
    let output = Command::new("sh").arg("-c").arg(command).env(BUILDS, directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(directory.join(".weir/build/latest")).unwrap();
    text.trim().parse().unwrap()
}

#[tokio::test]
async fn order_place_locale_time_zone_umask_and_processors_do_not_matter() {
    let mut files = files();
    let expected = hash(&project(&files)).await;
    files.reverse();
    let reversed = project(&files);
    assert_eq!(hash(&reversed).await, expected);
    for surroundings in [
        "",
        "LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8;",
        "export LC_ALL=C TZ=Pacific/Kiritimati;",
        "umask 077;",
        "umask 000;",
        "cd /;",
        "export TOKIO_WORKER_THREADS=1; taskset -c 0",
    ] {
        let place = project(&files);
        let surroundings = surroundings
            .replace("taskset -c 0", "command -v taskset >/dev/null && taskset -cp 0 $$ >/dev/null;");
        assert_eq!(hash_in_process(&place.path(), &surroundings), expected, "{surroundings}");
    }
}

#[tokio::test]
async fn every_relevant_change_is_another_manifest() {
    let files = files();
    let mut seen = BTreeMap::from([(hash(&project(&files)).await, "nothing")]);
    for (path, from, to) in [
        ("weir.yaml", "acme", "acne"),
        ("agents/a/spec.yaml", "Ärger", "Freude"),
        (
            "agents/a/spec.yaml",
            "name: tools/x, access: read",
            "name: tools/x, access: read, approval: always",
        ),
        ("agents/a/SOUL.md", "Kind", "Rude"),
        ("agents/a/skills/s/SKILL.md", "Do", "Undo"),
        ("agents/a/skills/s/data.bin", "1", "2"),
        ("loops/daily.yaml", "0 9", "0 8"),
        ("policies/p.cedar", "permit", "forbid"),
        ("tools/x.ts", "number", "integer"),
        ("tools/lib/unit.ts", "= 1", "= 2"),
    ] {
        let mut changed = files.clone();
        let file = changed.iter_mut().find(|(known, _)| *known == path).unwrap();
        assert!(file.1.contains(from), "{path} has no {from}");
        file.1 = file.1.replacen(from, to, 1);
        let twin = seen.insert(hash(&project(&changed)).await, path);
        assert_eq!(twin, None, "{path}: {from} → {to}");
    }
}

#[tokio::test]
async fn what_is_not_part_of_the_build_does_not_matter() {
    let project = project(&files());
    let expected = hash(&project).await;
    project.write("README.md", "Something else.\n");
    project.write("docs/new.md", "New.\n");
    project.write(".weir/build/other.json", "{}");
    project.write("agents/a/notes.txt", "New.\n");
    project.write("tests/t.yaml", "agent: b\nscenarios: [{ name: other, steps: [{ say: Hello }] }]\n");
    assert_eq!(hash(&project).await, expected);
    let path = project.file("agents/a/spec.yaml");
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(hash(&project).await, expected);
}
