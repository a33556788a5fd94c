//! What references stand for: a variable, a file, or what a program prints. Looked up each time, so that a secret that was
//! changed takes effect; bounded in size and time; no shell.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use weir_types::{Secret, SecretRef};

/// The longest secret.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// What every command is given: it could hardly start otherwise.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

/// How long a program may take to print one.
const EXEC_TIMEOUT: Duration = Duration::from_secs(10);

/// Where references are looked up.
#[derive(Clone, Default)]
pub struct Places {
    /// The environment variables that `env:` knows.
    pub variables: BTreeMap<String, String>,
    /// Where paths of `file:` and programs of `exec:` begin.
    pub directory: PathBuf,
}

/// Why a reference stands for nothing. It says no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookUpError {
    /// No such variable.
    #[error("that variable is not set")]
    Unset,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The program cannot be started.
    #[error("`{program}` cannot be started: {why}")]
    NotStarted {
        /// As written.
        program: String,
        /// Why.
        why: String,
    },
    /// The program failed, or said nothing in time.
    #[error("`{program}` {how}")]
    Failed {
        /// As written.
        program: String,
        /// What it did.
        how: String,
    },
    /// Nothing, or nothing that can be a secret.
    #[error("there is nothing in it")]
    Empty,
    /// Bytes that are no text.
    #[error("it is no text")]
    NoText,
    /// More than a secret has.
    #[error("it has more than {SECRET_BYTES_MAX} bytes")]
    TooLong,
}

impl Places {
    /// What a reference stands for right now.
    ///
    /// # Errors
    /// When it stands for nothing; the error never has the secret in it.
    ///
    /// # Cancel safety
    /// Dropping it ends the program that was started.
    pub async fn look_up(&self, reference: &SecretRef) -> Result<Secret, LookUpError> {
        match reference {
            SecretRef::Env(name) => {
                let value = self.variables.get(name).ok_or(LookUpError::Unset)?;
                text(value.as_bytes().to_vec())
            }
            SecretRef::File(path) => {
                let path = self.directory.join(path);
                let read = tokio::task::spawn_blocking(move || content(&path)).await;
                let read = read.map_err(|_| LookUpError::Unreadable("reading it broke off".to_owned()))?;
                text(read.map_err(|error| LookUpError::Unreadable(words(&error)))?)
            }
            SecretRef::Exec(argv) => self.printed(argv).await,
        }
    }

    /// The variables that a server which is started here is given beside its own: those without which little can start.
    pub fn inherited(&self) -> BTreeMap<String, String> {
        let known = |name: &str| Some((name.to_owned(), self.variables.get(name)?.clone()));
        ALWAYS.iter().filter_map(|name| known(name)).collect()
    }

    /// What the declared variables of a server stand for. The error names the variable and its reference.
    ///
    /// # Errors
    /// When one of them stands for nothing.
    pub async fn environment(
        &self,
        references: &BTreeMap<String, SecretRef>,
    ) -> Result<BTreeMap<String, Secret>, String> {
        let mut environment = BTreeMap::new();
        for (name, reference) in references {
            let secret = self.look_up(reference).await;
            let secret = secret.map_err(|why| format!("`{name}` comes from `{reference}`, but {why}"))?;
            environment.insert(name.clone(), secret);
        }
        Ok(environment)
    }

    /// What a program prints. It is started without a shell.
    async fn printed(&self, argv: &[String]) -> Result<Secret, LookUpError> {
        let (program, arguments) = argv.split_first().ok_or(LookUpError::Empty)?;
        let failed = |how: String| LookUpError::Failed { program: program.clone(), how };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            // An approval covers the code beside a program. Python would write compiled code there.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(self.inherited())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| LookUpError::NotStarted { program: program.clone(), why: words(&error) })?;
        let mut bytes = Vec::new();
        let reading = async {
            if let Some(output) = child.stdout.take() {
                output.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
                // Whoever has more to say is not waited for.
                if bytes.len() > SECRET_BYTES_MAX {
                    return Ok(None);
                }
            }
            child.wait().await.map(Some)
        };
        match tokio::time::timeout(EXEC_TIMEOUT, reading).await {
            Err(_) => Err(failed(format!("took longer than {} s", EXEC_TIMEOUT.as_secs()))),
            Ok(Err(error)) => Err(failed(format!("failed: {}", words(&error)))),
            Ok(Ok(Some(status))) if !status.success() => Err(failed(format!("failed ({status})"))),
            Ok(Ok(None)) => Err(LookUpError::TooLong),
            Ok(Ok(Some(_))) => text(bytes),
        }
    }
}

/// Prints no variable's value.
impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// The beginning of a file, and no more than one byte too much. Blocks, but not on a pipe that nobody writes to.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file: File =
        OpenOptions::new().read(true).custom_flags(i32::try_from(flags).unwrap_or_default()).open(path)?;
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A secret without the line break that files and programs end with.
fn text(bytes: Vec<u8>) -> Result<Secret, LookUpError> {
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(LookUpError::TooLong);
    }
    // The error would carry the bytes.
    let text = String::from_utf8(bytes).map_err(|_| LookUpError::NoText)?;
    let text = text.trim_end_matches(['\r', '\n']);
    match text.is_empty() || text.contains('\0') {
        true => Err(LookUpError::Empty),
        false => Ok(Secret::new(text)),
    }
}

/// An error of the system in the words of a sentence.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_lowercase().collect::<String>());
    first.map(|first| first + letters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn look(reference: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let write =
            |name: &str, content: &[u8]| std::fs::write(directory.path().join(name), content).unwrap();
        write("token", b"from a file\r\n");
        write("empty", b"\n");
        write("bytes", b"\xff\xfe");
        write("long", &[b'x'; SECRET_BYTES_MAX + 1]);
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let variables =
            [("PATH", std::env::var("PATH").unwrap()), ("TOKEN", "from env".into()), ("X", "no".into())];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let places = Places { variables, directory: directory.path().to_owned() };
        assert!(!format!("{places:?}").contains("from env"));
        let references = BTreeMap::from([("GIVEN".to_owned(), reference.parse().unwrap())]);
        let found = places.environment(&references).await?;
        assert_eq!(found.len(), 1);
        Ok(found["GIVEN"].expose().to_owned())
    }

    #[tokio::test]
    async fn references_are_looked_up_and_nothing_else_is_handed_on() {
        for (reference, value) in [
            ("env:TOKEN", "from env"),
            ("file:token", "from a file"),
            ("exec:echo from a program", "from a program"),
            ("exec:printenv PATH", &std::env::var("PATH").unwrap()),
        ] {
            assert_eq!(look(reference).await.as_deref(), Ok(value));
        }
        // Neither what references may name, nor what this very process was given.
        for name in ["TOKEN", "CARGO_MANIFEST_DIR"] {
            let missing = look(&format!("exec:printenv {name}")).await;
            assert!(missing.unwrap_err().contains("failed (exit status: 1)"), "{name}");
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        for (reference, why) in [
            ("env:NOWHERE", "that variable is not set"),
            ("file:nowhere", "it cannot be read: no such file or directory"),
            ("file:empty", "there is nothing in it"),
            ("file:pipe", "there is nothing in it"),
            ("file:bytes", "it is no text"),
            ("file:long", "it has more than 65536 bytes"),
            ("file:/dev/zero", "it has more than 65536 bytes"),
            ("exec:false", "`false` failed (exit status: 1)"),
            ("exec:yes", "it has more than 65536 bytes"),
            ("exec:./nowhere", "`./nowhere` cannot be started: no such file or directory"),
        ] {
            assert_eq!(look(reference).await, Err(format!("`GIVEN` comes from `{reference}`, but {why}")));
        }
    }
}
