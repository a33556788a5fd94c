//! What a program of a project reads to run at all: its own code, the packages that it uses, and what interprets it.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::walls::Files;

/// Packages and what describes them, in the directory of a program and in those around it within the project.
const PACKAGES: &[&str] = &["node_modules", "package.json", ".venv", "venv", "pyproject.toml"];

/// What is beside a directory of programs and belongs to them.
const LIBRARIES: &[&str] = &["lib", "lib64", "libexec", "pyvenv.cfg"];

/// What is beside the `shims` of a version manager (pyenv, rbenv, nodenv, asdf).
const MANAGED: &[&str] = &["bin", "installs", "lib", "libexec", "plugins", "shims", "version", "versions"];

/// Links and interpreters of interpreters that are followed.
const STEPS_MAX: usize = 16;

/// Longest first line of a script.
const FIRST_LINE_BYTES_MAX: u64 = 4096;

/// Adds what a program reads. `project` is where it is started; its words are as they are started.
pub(super) fn add(files: &mut Files, argv: &[String], project: &Path, search: &str) {
    let Some((program, arguments)) = argv.split_first() else { return };
    for directory in search.split(':').map(Path::new).filter(|path| path.is_absolute()) {
        if is_of_programs(directory) {
            with_libraries(files, directory);
        } else if let Some(manager) = directory.parent().filter(|_| directory.ends_with("shims")) {
            files.own.extend(MANAGED.iter().map(|name| manager.join(name)));
        }
    }
    if program.starts_with("./") {
        let file = project.join(program);
        let home = file.parent().unwrap_or(project).to_owned();
        tree(files, &home, project);
        for around in home.ancestors().take_while(|path| path.starts_with(project)) {
            for name in PACKAGES {
                files.own.push(around.join(name));
            }
            for environment in [".venv", "venv"] {
                interpreter(files, &around.join(environment).join("bin/python"), search);
            }
        }
    }
    match find(program, project, search) {
        Some(found) => interpreter(files, &found, search),
        None => return,
    }
    // Files and directories of the project that it is given.
    for word in arguments {
        let path = project.join(word);
        let is_within =
            Path::new(word).components().all(|part| matches!(part, Component::CurDir | Component::Normal(_)));
        if is_within && !word.is_empty() && path.exists() {
            tree(files, &path, project);
        }
    }
}

/// A directory of the program. Of the project itself, all that has no hidden name: there, `.git`, `.env` and the data directory are.
fn tree(files: &mut Files, path: &Path, project: &Path) {
    let is_project = path
        .canonicalize()
        .ok()
        .is_some_and(|real| project.canonicalize().is_ok_and(|project| real == project));
    if !is_project {
        files.own.push(path.to_owned());
        return;
    }
    // What imports modules lists the directory that they are in.
    files.listed.push(project.to_owned());
    for entry in std::fs::read_dir(project).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.own.push(entry.path());
        }
    }
}

/// Where a program is: a path, or a name to search for.
fn find(program: &str, project: &Path, search: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(project.join(program));
    }
    search.split(':').map(|directory| Path::new(directory).join(program)).find(|path| path.is_file())
}

/// A program, what its links lead to, and what interprets it: each with what is beside it.
fn interpreter(files: &mut Files, program: &Path, search: &str) {
    let mut next = Some(program.to_owned());
    for _ in 0..STEPS_MAX {
        let Some(path) = next.take().filter(|path| path.symlink_metadata().is_ok()) else { return };
        files.own.push(path.clone());
        if let Some(directory) = path.parent().filter(|directory| is_of_programs(directory)) {
            with_libraries(files, directory);
        }
        next = match std::fs::read_link(&path) {
            Ok(target) => Some(path.parent().unwrap_or(Path::new("/")).join(target)),
            Err(_) => interpreted_by(&path, search),
        };
    }
}

/// What the first line of a script names. `env` is looked through.
fn interpreted_by(script: &Path, search: &str) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut start).ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?;
    let mut words = line.split_ascii_whitespace();
    let program = words.next()?;
    let named = match Path::new(program).file_name()?.to_str()? {
        "env" => words.find(|word| !word.starts_with('-') && !word.contains('='))?,
        _ => program,
    };
    find(named, Path::new("/"), search)
}

fn is_of_programs(directory: &Path) -> bool {
    directory.is_absolute()
        && directory.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == ".bin")
}

fn with_libraries(files: &mut Files, directory: &Path) {
    files.own.push(directory.to_owned());
    if let Some(prefix) = directory.parent() {
        files.own.extend(LIBRARIES.iter().map(|name| prefix.join(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(argv: &[&str], project: &Path, search: &str) -> Files {
        let mut files = Files::default();
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        add(&mut files, &argv, project, search);
        files
    }

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_program_has_its_directory_its_packages_and_its_interpreter() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        write(&at("project/servers/a/main.py"), "#!/usr/bin/env -S snake -u\n");
        write(&at("project/docs/page"), "");
        write(&at("tools/v3/bin/snake3"), "");
        std::fs::create_dir_all(at("tools/bin")).unwrap();
        std::os::unix::fs::symlink("../v3/bin/snake3", at("tools/bin/snake")).unwrap();
        let search = format!("{}:.:relative/bin:{}", at("tools/bin").display(), at("tools").display());
        let argv = ["./servers/a/main.py", "./docs", "../outside", "/etc", "nothing"];
        let files = own(&argv, &at("project"), &search);
        for name in [
            "project/./servers/a",
            "project/servers/node_modules",
            "project/.venv",
            "tools/bin",
            "tools/bin/../v3/lib",
            "project/./docs",
        ] {
            // Paths are compared as paths: `./` in them makes no difference.
            assert!(files.own.contains(&at(name)), "{name}: {:#?}", files.own);
        }
        assert!(files.own.iter().any(|path| path.ends_with("v3/bin/snake3")));
        for path in &files.own {
            assert!(
                path.starts_with(place.path()) && *path != at("tools") && *path != at("project"),
                "{path:?}"
            );
        }
        assert!(files.listed.is_empty());
    }

    #[test]
    fn at_the_top_of_a_project_hidden_names_stay_hidden() {
        let place = tempfile::tempdir().unwrap();
        for name in ["server.py", "helper.py", ".env", ".weir/journal.db", ".git/config"] {
            write(&place.path().join(name), "#!snake\n");
        }
        for argv in [&["./server.py"][..], &["npx", "-y", "p"], &["./server.py", "."]] {
            let files = own(argv, place.path(), "/nowhere/bin");
            let names = [".env", ".weir", ".git"].map(|name| place.path().join(name));
            assert!(!files.own.iter().any(|path| names.contains(path)), "{:?}", files.own);
            let is_program = argv[0].starts_with("./");
            assert_eq!(files.own.contains(&place.path().join("helper.py")), is_program);
            assert_eq!(files.listed.contains(&place.path().to_owned()), is_program);
        }
    }
}
