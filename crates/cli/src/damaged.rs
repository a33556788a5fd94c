//! Lists in which something is damaged. They show everything, and the command ends with exit code 1, as `weir export` does.

use std::borrow::Cow;

use weir_types::{Explain, Fault};

use crate::report::Outcome;
use crate::show::count;

/// Something in a list is damaged.
#[derive(Debug, thiserror::Error)]
#[error("something in the list is damaged: {}", count(*.number, .noun))]
struct DamagedInList {
    number: u64,
    noun: &'static str,
}

impl Explain for DamagedInList {
    fn code(&self) -> &'static str {
        "cli::damaged-in-list"
    }

    fn help(&self) -> Cow<'static, str> {
        "everything else is shown; run `weir verify`, and restore what is damaged from a backup or an export"
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Damaged
    }
}

/// How a list ends that has shown everything.
///
/// # Errors
/// When so many of what it showed are damaged.
pub(crate) fn end_of_list(damaged: usize, noun: &'static str) -> Outcome {
    match damaged {
        0 => Ok(()),
        number => Err(DamagedInList { number: number as u64, noun }.into()),
    }
}
