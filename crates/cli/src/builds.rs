//! Builds that were kept: `.weir/build/<hash>.json`.

use std::path::Path;

use weir_compiler::{Built, Loaded, SaveError, Which};

use crate::report::Outcome;
use crate::store::blocking;

/// The build with this hash, the beginning of one, or `latest`.
pub(crate) async fn find(data_dir: &Path, which: &str) -> Outcome<Loaded> {
    let (data_dir, which) = (data_dir.to_owned(), which.to_owned());
    let found = blocking(move || {
        let which = if which == "latest" { Which::Latest } else { Which::Prefix(&which) };
        weir_compiler::load(&data_dir, &which)
    });
    Ok(found.await??)
}

/// Keeps a manifest for the sessions that name it.
pub(crate) async fn keep(built: Built, data_dir: &Path) -> Result<(), SaveError> {
    let data_dir = data_dir.to_owned();
    let kept = tokio::task::spawn_blocking(move || weir_compiler::keep(&data_dir, &built)).await;
    match kept.map_err(|error| error.try_into_panic()) {
        Ok(kept) => kept,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // A runtime that is ending keeps nothing, and runs nothing that would need it.
        Err(Err(_)) => Ok(()),
    }
}
