//! What is different in a directory, as changes whose contents are in the blob store.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use weir_blobs::Blobs;

use crate::disk::{Directory, blocking};
use crate::survey::Survey;
use crate::{Change, ChangesError, Entry, Files, LeftOut, Limits, Mode, Path, Scan, Skipped, diff};

/// What a directory has that the files did not, and the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What turns the files into what is in the directory, in the order of [`diff`].
    pub changes: Vec<Change>,
    /// What could not be taken, sorted by path within each directory.
    pub skipped: Vec<Skipped>,
    /// What was left out by the rules of [`crate::LeaveOut`].
    pub left_out: LeftOut,
}

/// Finds what is different in `directory`, compared with `base`, and stores the contents of what is new. With
/// no files to compare with, that imports the directory; with those of a [`crate::checkout`], it finds what was
/// done there.
///
/// Each change names exactly the content that was stored, also when the file is written to at the same time.
/// What `scan` leaves out is neither taken nor missed: those of the files stay as they are. Empty directories are
/// not kept.
///
/// # Errors
/// When something cannot be read, is too much, or is replaced during the look; then there are no changes at
/// all, and contents stored until then are for the collector.
///
/// # Cancel safety
/// Dropping the future changes nothing but the blobs stored until then.
pub async fn changes_in(
    directory: &std::path::Path,
    base: &Files,
    scan: &Scan,
    blobs: &dyn Blobs,
) -> Result<Found, ChangesError> {
    let (root, survey) = look(directory.to_owned(), base.clone(), scan.clone()).await?;
    let mut now = survey.left_alone;
    let mut bytes = 0;
    for seen in survey.files {
        let entry = match seen.known {
            Some(entry) => entry,
            None => store(&root, &seen.path, scan.limits, blobs).await?,
        };
        bytes = scan.limits.check_sum(bytes, entry.size)?;
        now.apply(&Change::Written { path: seen.path, entry });
    }
    Ok(Found { changes: diff(base, &now), skipped: survey.skipped, left_out: survey.left_out })
}

async fn look(
    directory: std::path::PathBuf,
    base: Files,
    scan: Scan,
) -> Result<(Arc<Directory>, Survey), ChangesError> {
    let shown = directory.clone();
    let looked = blocking(move || {
        let root = Directory::open(&directory)
            .map_err(|source| ChangesError::Directory { directory: directory.clone(), source })?;
        let survey = Survey::take((&root, &directory), &base, &scan)?;
        Ok((Arc::new(root), survey))
    });
    looked.await.map_err(|source| ChangesError::Directory { directory: shown, source })?
}

async fn store(
    root: &Arc<Directory>,
    path: &Path,
    limits: Limits,
    blobs: &dyn Blobs,
) -> Result<Entry, ChangesError> {
    let unreadable = |error| ChangesError::read(path.as_str(), error);
    let (file, mode) = open(root, path).await.map_err(unreadable)?;
    // A file may have grown since it was looked at, and may go on growing.
    let content = tokio::fs::File::from_std(file).take(limits.file_bytes.saturating_add(1));
    let stored = blobs.put(Box::new(content)).await;
    let stored = stored.map_err(|source| ChangesError::Store { path: path.clone(), source })?;
    limits.check_file(path, stored.bytes)?;
    Ok(Entry { hash: stored.hash, size: stored.bytes, mode })
}

async fn open(root: &Arc<Directory>, path: &Path) -> std::io::Result<(std::fs::File, Mode)> {
    let (root, path) = (Arc::clone(root), path.clone());
    let (file, _, mode) = blocking(move || root.file(&path)).await??;
    Ok((file, mode))
}
