//! Whether the files of a project fit together: models, references, principals, and what nobody uses.

mod agents;
mod models;
mod principals;
mod unused;

use std::collections::BTreeMap;

use crate::check::similar;
use crate::diagnostic::{Diagnostic, Spanned};
use crate::read::Names;
use crate::sources::Sources;

/// Finds the model of every agent, and everything that does not fit together, beside what was found before.
pub(crate) fn resolve(
    sources: &mut Sources,
    names: &Names,
    files: &BTreeMap<String, Vec<u8>>,
    mut problems: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    problems.extend(models::find(sources));
    let is_whole = !problems.iter().any(Diagnostic::is_error);
    let mut check = Check { sources, names, files, problems, is_whole, suggestions: SUGGESTIONS_MAX };
    agents::check(&mut check);
    principals::check(&mut check);
    unused::check(&mut check);
    check.problems
}

/// Most look-ups of a similar name among all agents. A project with more broken references has one problem.
const SUGGESTIONS_MAX: usize = 50;

/// The file that a project's own settings are in.
const PROJECT_FILE: &str = "weir.yaml";

/// What is looked at, and what was found.
struct Check<'s> {
    sources: &'s Sources,
    names: &'s Names,
    files: &'s BTreeMap<String, Vec<u8>>,
    problems: Vec<Diagnostic>,
    /// Whether every file could be read as it is.
    is_whole: bool,
    suggestions: usize,
}

impl Check<'_> {
    fn add(
        &mut self,
        code: &'static str,
        file: &str,
        at: &Spanned<impl Sized>,
        message: String,
        help: String,
    ) {
        self.problems.push(Diagnostic::error(code, file, at.span, message, help));
    }

    /// What to write instead of a name that is not among these.
    fn suggest<'n>(
        &mut self,
        name: &str,
        prefix: &str,
        known: impl Iterator<Item = &'n str>,
        otherwise: String,
    ) -> String {
        if self.suggestions == 0 {
            return otherwise;
        }
        self.suggestions -= 1;
        similar(name, known).map_or(otherwise, |similar| format!("did you mean `{prefix}{similar}`?"))
    }
}
