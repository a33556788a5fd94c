//! What opening the journal found, and its acceptance by a person.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use weir_journal_sqlite::{DamageRecord, accept_damage, damage_records};
use weir_types::{Explain, Fault};

use super::Check;
use crate::commands::Context;
use crate::identity;
use crate::report::Outcome;
use crate::show::count;
use crate::store::blocking;

const NAME: &str = "damage";

const HELP: &str = "stop writing and keep a copy of the data directory. A `weir backup` may have what is missing: unpack \
                    it into another directory and compare. `weir doctor --accept-damage` goes on with the journal as it is";

/// The list of findings cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the list of damage in `{}`", .path.display())]
struct DamageListError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Explain for DamageListError {
    fn code(&self) -> &'static str {
        "cli::damage-list"
    }

    fn help(&self) -> Cow<'static, str> {
        "check free space, and the permissions of `damage.jsonl` there".into()
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

/// Every finding that no person has accepted.
pub(super) fn checks(directory: &Path) -> Vec<Check> {
    let records = match damage_records(directory) {
        Ok(records) => records,
        Err(error) => {
            let detail = format!("`damage.jsonl` cannot be read: {error}");
            return vec![Check::fail(NAME, detail, "check the permissions of the data directory")];
        }
    };
    let open = |record: &&DamageRecord| record.accepted.is_none();
    let accepted = records.len() - records.iter().filter(open).count();
    if accepted == records.len() {
        let detail = match records.last().and_then(|record| record.accepted.as_ref()) {
            None => "none found".to_owned(),
            Some(last) => {
                let findings = count(accepted as u64, "finding");
                format!("{findings} accepted, the last by {} at {}", last.by, last.at)
            }
        };
        return vec![Check::ok(NAME, detail)];
    }
    records.iter().filter(open).map(|record| Check::fail(NAME, record.to_string(), HELP)).collect()
}

/// Accepts every finding.
pub(super) async fn accept(context: &mut Context) -> Outcome {
    let (directory, by) = (context.data_dir.clone(), identity::principal());
    // Opening looks for damage that has not been reported yet: a person accepts what was told.
    let accepted = blocking(move || {
        accept_damage(&directory, &by).map_err(|source| DamageListError { path: directory, source })
    });
    let accepted = accepted.await??;
    context.out.note(format_args!("accepted {}", count(accepted as u64, "finding")));
    Ok(())
}
