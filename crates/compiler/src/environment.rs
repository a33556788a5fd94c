//! The variables of a server that is started here: what references stand for, looked up at the last moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use weir_spec::SecretRef;

use crate::tree::words;

/// What every command is given: it could hardly start otherwise.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

/// The longest secret.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// How long a program may take to print one.
const EXEC_TIMEOUT: Duration = Duration::from_secs(10);

/// The whole environment of a server. The error says which variable is missing and why, and no value.
pub(crate) async fn of_server(
    references: &BTreeMap<String, SecretRef>,
    variables: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<BTreeMap<String, String>, String> {
    let inherited =
        ALWAYS.iter().filter_map(|name| Some(((*name).to_owned(), variables.get(*name)?.clone())));
    let mut environment: BTreeMap<String, String> = inherited.collect();
    for (name, reference) in references {
        let value = look_up(reference, variables, directory).await;
        let value = value.map_err(|why| format!("`{name}` comes from `{reference}`, but {why}"))?;
        environment.insert(name.clone(), value);
    }
    Ok(environment)
}

async fn look_up(
    reference: &SecretRef,
    variables: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<String, String> {
    match reference {
        SecretRef::Env(name) => {
            variables.get(name).cloned().ok_or_else(|| "that variable is not set".to_owned())
        }
        SecretRef::File(path) => {
            let path = directory.join(path);
            let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
            let bytes = read.map_err(|_| "reading it broke off".to_owned())?;
            text(bytes.map_err(|error| format!("it cannot be read: {}", words(&error)))?)
        }
        SecretRef::Exec(argv) => printed(argv, variables, directory).await,
    }
}

/// What a program prints. It is started without a shell.
async fn printed(
    argv: &[String],
    variables: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<String, String> {
    let (program, arguments) = argv.split_first().ok_or_else(|| "it names no program".to_owned())?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(ALWAYS.iter().filter_map(|name| Some((name, variables.get(*name)?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {}", words(&error)))?;
    let mut bytes = Vec::new();
    let reading = async {
        if let Some(output) = child.stdout.take() {
            output.take(SECRET_BYTES_MAX).read_to_end(&mut bytes).await?;
        }
        child.wait().await
    };
    match tokio::time::timeout(EXEC_TIMEOUT, reading).await {
        Err(_) => Err(format!("`{program}` took longer than {} s", EXEC_TIMEOUT.as_secs())),
        Ok(Err(error)) => Err(format!("`{program}` failed: {}", words(&error))),
        Ok(Ok(status)) if !status.success() => Err(format!("`{program}` failed ({status})")),
        Ok(Ok(_)) => text(bytes),
    }
}

/// A secret without the line break that files and programs end with.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
    let text = text.trim_end_matches(['\r', '\n']);
    match text.is_empty() || text.contains('\0') {
        true => Err("there is nothing in it".to_owned()),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn look(reference: &str) -> Result<BTreeMap<String, String>, String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), "from a file\r\n").unwrap();
        std::fs::write(directory.path().join("empty"), "\n").unwrap();
        let variables =
            [("PATH", std::env::var("PATH").unwrap()), ("TOKEN", "from env".into()), ("X", "no".into())];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let references = BTreeMap::from([("GIVEN".to_owned(), reference.parse().unwrap())]);
        let mut found = of_server(&references, &variables, directory.path()).await?;
        found.remove("PATH");
        Ok(found)
    }

    #[tokio::test]
    async fn references_are_looked_up_and_nothing_else_is_handed_on() {
        for (reference, value) in [
            ("env:TOKEN", "from env"),
            ("file:token", "from a file"),
            ("exec:echo from a program", "from a program"),
        ] {
            assert_eq!(look(reference).await, Ok(BTreeMap::from([("GIVEN".to_owned(), value.to_owned())])));
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        for (reference, why) in [
            ("env:NOWHERE", "that variable is not set"),
            ("file:nowhere", "it cannot be read: no such file or directory"),
            ("file:empty", "there is nothing in it"),
            ("exec:false", "`false` failed (exit status: 1)"),
            ("exec:./nowhere", "`./nowhere` cannot be started: no such file or directory"),
        ] {
            assert_eq!(look(reference).await, Err(format!("`GIVEN` comes from `{reference}`, but {why}")));
        }
    }
}
