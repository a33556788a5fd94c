//! Findings outside of the journal's tables: other files of the data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_blobs::{Blobs, GetError};
use weir_journal::{Journal, Problem, Report};
use weir_spec::manifest::BYTES_MAX;
use weir_types::Hash;

use crate::report::Outcome;
use crate::store::{BLOBS, blocking};

/// What is wrong with the files of a data directory that are not the journal or blobs.
pub(crate) async fn files(data_dir: &Path) -> Outcome<Vec<Problem>> {
    let builds = data_dir.join("build");
    blocking(move || manifests(&builds)).await
}

/// Reads every blob that no event of `journal` names (its own check reads the others); all of them without a journal.
/// Returns how many were sound.
pub(crate) async fn blobs(
    data_dir: &Path,
    store: &Arc<dyn Blobs>,
    journal: Option<&dyn Journal>,
    report: &mut Report,
) -> Outcome {
    let root = data_dir.join(BLOBS);
    let found = blocking(move || blob_files(&root)).await?;
    found.misnamed.into_iter().for_each(|problem| report.note(problem));
    for hash in found.hashes {
        let is_checked = match journal {
            Some(journal) => journal.refers_to(hash).await.unwrap_or(false),
            None => false,
        };
        if is_checked {
            continue;
        }
        match read_through(store, hash).await {
            Ok(()) => report.blobs += 1,
            // Removed by the collector since the directory was listed.
            Err(GetError::Missing(_)) => {}
            Err(error) => {
                let name = hash.to_string();
                let place = format!("file `blobs/{}/{}`", &name[..2], &name[2..]);
                report.note(Problem::at_place(place, error.to_string()));
            }
        }
    }
    Ok(())
}

async fn read_through(store: &Arc<dyn Blobs>, hash: Hash) -> Result<(), GetError> {
    let mut content = store.get(hash).await?;
    let read = tokio::io::copy(&mut content, &mut tokio::io::sink()).await;
    read.map(drop).map_err(|error| GetError::from_reader(hash, error))
}

/// What is in the directory of blobs.
#[derive(Default)]
struct BlobFiles {
    hashes: Vec<Hash>,
    misnamed: Vec<Problem>,
}

/// Lists the blobs; locks and temporary files are left out. Blocks.
fn blob_files(root: &Path) -> BlobFiles {
    let mut found = BlobFiles::default();
    let shards = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut shards: Vec<PathBuf> = shards.filter(|path| path.is_dir()).collect();
    shards.sort();
    for shard in shards {
        let prefix = shard.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if prefix == "tmp" {
            continue;
        }
        for path in entries(&shard) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name == ".lock" {
                continue;
            }
            match format!("{prefix}{name}").parse() {
                Ok(hash) if prefix.len() == 2 => found.hashes.push(hash),
                _ => found.misnamed.push(Problem::at_place(
                    format!("file `blobs/{prefix}/{name}`"),
                    "its name is not the hash of a blob",
                )),
            }
        }
    }
    found
}

/// Every manifest has the hash that is its name, and `latest` names one. Blocks.
fn manifests(builds: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in entries(builds) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let checked = match name.strip_suffix(".json").map(str::parse::<Hash>) {
            Some(Ok(hash)) => manifest(&path, hash),
            Some(Err(_)) => Err("its name is not the hash of a manifest".to_owned()),
            None if name == "latest" => latest(builds, &path),
            None => Ok(()),
        };
        if let Err(what) = checked {
            problems.push(Problem::at_place(format!("file `build/{name}`"), what));
        }
    }
    problems
}

fn manifest(path: &Path, hash: Hash) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("it cannot be read ({error})");
    if fs::metadata(path).map_err(unreadable)?.len() > BYTES_MAX as u64 {
        return Err("it is larger than any manifest".to_owned());
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    if Hash::of(&bytes) == hash {
        return Ok(());
    }
    Err("its content does not have the hash that is its name; `weir build` writes it again".to_owned())
}

fn latest(builds: &Path, path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("it cannot be read ({error})"))?;
    let hash: Hash = text.trim().parse().map_err(|_| "it does not hold the hash of a manifest".to_owned())?;
    if builds.join(format!("{hash}.json")).is_file() {
        return Ok(());
    }
    Err(format!("it names the manifest {hash}, which is missing; `weir build` writes both again"))
}

/// The files of a directory, sorted; none if it does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}
