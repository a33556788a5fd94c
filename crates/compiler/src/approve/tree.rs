//! What an approval covers: the code in the directory of a program, since a program runs what lies beside it.
//!
//! Code is what has a code file's name, may be executed or begins with `#!`, and what says which packages are installed. Data is left out: programs
//! write it beside themselves, and would be asked about for ever. So an approval is no promise about a program that executes its data.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weir_types::{Hash, Hasher};

/// Most files that are looked at for one approval, and most bytes of code.
const FILES_MAX: usize = 20_000;
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The deepest directory. Links may lead in circles.
const DEPTH_MAX: usize = 40;

/// Directories of version control and of Weir. No program runs what is there.
const SKIPPED: &[&str] = &[".git", ".hg", ".svn", ".weir"];

/// What Weir itself reads in a project, and what changes with every agent.
const SKIPPED_AT_THE_TOP: &[&str] = &["agents", "evals", "models", "policies", "skills", "tools"];

const EXTENSIONS: &[&str] = &[
    "bash", "bat", "cjs", "cmd", "cts", "dll", "dylib", "exe", "fish", "jar", "js", "jsx", "lua", "mjs",
    "mts", "node", "php", "pl", "pm", "ps1", "pth", "py", "pyc", "pyd", "pyw", "pyz", "r", "rb", "sh", "so",
    "ts", "tsx", "wasm", "zip", "zsh",
];

/// Files that say which packages a program gets. Those at the top of the project count for every program.
const MANIFESTS: &[&str] = &[
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "bun.lockb",
    "deno.json",
    "deno.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pyproject.toml",
    "requirements.txt",
    "uv.lock",
    "yarn.lock",
];

/// The code that an approval covers beside a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredCode {
    /// The directory within the project; `.` for the project itself.
    pub directory: String,
    /// How many files of code it has, at any depth.
    pub files: usize,
    /// What they are.
    pub(crate) hash: Hash,
}

/// The code beside `program`, a path within the project.
pub(crate) fn beside(project: &Path, program: &Path) -> io::Result<CoveredCode> {
    let inner: PathBuf = program
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .filter(|part| part.as_os_str() != ".")
        .collect();
    let is_top = inner.as_os_str().is_empty();
    let directory = if is_top { ".".to_owned() } else { inner.display().to_string() };
    let mut reading =
        Reading { directory: &directory, seen: 0, files: 0, bytes: 0, hasher: Hasher::default() };
    reading.read_directory(
        &project.join(&inner),
        Path::new(""),
        if is_top { SKIPPED_AT_THE_TOP } else { &[] },
        0,
    )?;
    for name in MANIFESTS.iter().filter(|_| !is_top) {
        let path = project.join(name);
        if let Ok(found) = std::fs::metadata(&path)
            && found.is_file()
        {
            reading.add(&Path::new("/").join(name), &path, &found)?;
        }
    }
    let Reading { files, hasher, .. } = reading;
    Ok(CoveredCode { directory, files, hash: hasher.finish() })
}

struct Reading<'d> {
    directory: &'d str,
    seen: usize,
    files: usize,
    bytes: u64,
    hasher: Hasher,
}

impl Reading<'_> {
    fn read_directory(
        &mut self,
        path: &Path,
        shown: &Path,
        skipped: &[&str],
        depth: usize,
    ) -> io::Result<()> {
        if depth > DEPTH_MAX {
            return Err(self.too_much(&format!("directories more than {DEPTH_MAX} deep")));
        }
        let mut names: Vec<_> = Vec::new();
        for entry in std::fs::read_dir(path)? {
            names.push(entry?.file_name());
            self.seen += 1;
            if self.seen > FILES_MAX {
                return Err(self.too_much(&format!("more than {FILES_MAX} files")));
            }
        }
        names.sort();
        for name in names {
            if SKIPPED.iter().chain(skipped).any(|skipped| name == *skipped) {
                continue;
            }
            let (path, shown) = (path.join(&name), shown.join(&name));
            // A link counts as what it leads to. One that leads nowhere runs nothing.
            let Ok(found) = std::fs::metadata(&path) else { continue };
            if found.is_dir() {
                self.read_directory(&path, &shown, &[], depth + 1)?;
            } else if found.is_file() && is_code(&path, &found)? {
                self.add(&shown, &path, &found)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, shown: &Path, path: &Path, found: &Metadata) -> io::Result<()> {
        self.files += 1;
        self.bytes += found.len();
        if self.bytes > BYTES_MAX {
            return Err(self.too_much(&format!("more than {} MiB of code", BYTES_MAX / (1024 * 1024))));
        }
        let name = shown.as_os_str().as_bytes();
        self.hasher.update(&(name.len() as u64).to_le_bytes());
        self.hasher.update(name);
        self.hasher.update(&[u8::from(found.permissions().mode() & 0o111 != 0)]);
        self.hasher.update(super::content(path)?.to_string().as_bytes());
        Ok(())
    }

    fn too_much(&self, what: &str) -> io::Error {
        io::Error::other(format!(
            "`{}` holds {what}, too much to be approved together; give the program a directory of its own, or start a package with `mcp://npx/…` or `mcp://uvx/…`",
            self.directory
        ))
    }
}

fn is_code(path: &Path, found: &Metadata) -> io::Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    // Libraries have their version behind the extension.
    let is_library = name.contains(".so.");
    let is_named = MANIFESTS.contains(&&*name)
        || is_library
        || extension.is_some_and(|extension| EXTENSIONS.contains(&&*extension));
    if is_named || found.permissions().mode() & 0o111 != 0 {
        return Ok(true);
    }
    let mut head = Vec::with_capacity(2);
    File::open(path)?.take(2).read_to_end(&mut head)?;
    Ok(head == b"#!")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Each change of code is another hash, and no change of anything else is.
    #[test]
    fn code_beside_a_program_counts_and_data_does_not() {
        let project = tempfile::tempdir().unwrap();
        let root = project.path();
        for program in ["servers/bell.py", "top.py"] {
            write(root, program, "import helper");
        }
        let hashes = || {
            ["./servers/bell.py", "./top.py"].map(|program| beside(root, Path::new(program)).unwrap().hash)
        };
        let mut before = hashes();
        // Names, and for which of the two programs they count.
        for (name, below, top) in [
            ("servers/helper.py", true, true),
            ("servers/package/deep/module.mjs", true, true),
            ("servers/lib/libx.so.1", true, true),
            ("servers/__pycache__/helper.cpython-311.pyc", true, true),
            ("servers/node_modules/dependency/index.js", true, true),
            ("servers/.venv/lib/python3/site-packages/x.py", true, true),
            ("servers/package-lock.json", true, true),
            ("package-lock.json", true, true),
            ("requirements.txt", true, true),
            ("helper.py", false, true),
            ("other/helper.py", false, true),
            ("servers/bell.log", false, false),
            ("servers/data.json", false, false),
            ("servers/.git/hooks/pre-commit.py", false, false),
            ("agents/a/spec.yaml", false, false),
            ("tools/a.ts", false, false),
            ("README.md", false, false),
        ] {
            for text in ["one", "two"] {
                write(root, name, text);
                let after = hashes();
                assert_eq!([before[0] != after[0], before[1] != after[1]], [below, top], "{name} {text}");
                before = after;
            }
        }
        // Text becomes a program by its first line, or by its mode.
        write(root, "servers/plain", "#!/bin/sh");
        let with_line = hashes();
        std::fs::set_permissions(root.join("servers/data.json"), std::fs::Permissions::from_mode(0o755))
            .unwrap();
        let with_mode = hashes();
        assert!(before[0] != with_line[0] && with_line[0] != with_mode[0]);
        // A name is not a part of the content, and a move is a change.
        std::fs::rename(root.join("servers/helper.py"), root.join("servers/helpers.py")).unwrap();
        assert_ne!(hashes()[0], with_mode[0]);
    }

    #[test]
    fn links_count_as_what_they_lead_to_and_circles_end() {
        let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(project.path(), "servers/bell.py", "");
        write(elsewhere.path(), "lib/module.py", "one");
        std::os::unix::fs::symlink(elsewhere.path().join("lib"), project.path().join("servers/lib")).unwrap();
        let hash =
            || beside(project.path(), Path::new("servers/bell.py")).map(|code| (code.files, code.hash));
        let before = hash().unwrap();
        assert_eq!(before.0, 2);
        write(elsewhere.path(), "lib/module.py", "two");
        assert_ne!(hash().unwrap(), before);
        // Through two links that lead back, there is no end of paths.
        for circle in ["one", "two"] {
            std::os::unix::fs::symlink(".", project.path().join("servers").join(circle)).unwrap();
        }
        let error = hash().unwrap_err().to_string();
        assert!(error.contains("`servers` holds") && error.contains("a directory of its own"), "{error}");
    }

    #[test]
    fn too_many_files_are_refused_with_a_way_out() {
        let project = tempfile::tempdir().unwrap();
        std::fs::create_dir(project.path().join("servers")).unwrap();
        for n in 0..=FILES_MAX {
            File::create(project.path().join(format!("servers/{n}"))).unwrap();
        }
        let error = beside(project.path(), Path::new("servers/bell.py")).unwrap_err().to_string();
        assert!(error.contains("more than 20000 files") && error.contains("mcp://npx/"), "{error}");
    }
}
