//! A loop is a run that does the same and gets the same, again and again. It is told so, and then stopped.
//!
//! A call is the same as another if tool, arguments *and result* are. What has not been seen before is progress: from there on
//! everything that was seen counts as seen once. So loops over several calls are noticed, and reading the same file in between
//! different pieces of work is none.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use weir_types::{Block, CallId, Hash};

use crate::session::{Call, CallResult, CallState, Session};

/// When the model is told.
const TELL_AT: u32 = 3;

/// When the run is stopped.
const STOP_AT: u32 = 6;

/// How many different calls are remembered; a loop over more of them is not noticed.
const REMEMBERED_MAX: usize = 32;

/// Longest name of a tool that is worth remembering.
const NAME_CHARS_MAX: usize = 64;

/// How often the calls of a run came to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats(Vec<Repeat>);

/// A call and its result, the latest last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Repeat {
    what: Hash,
    tool: String,
    count: u32,
}

impl Repeats {
    /// The tool that the run is stuck with, and how often its call came to the same.
    pub fn stuck(&self) -> Option<(String, u32)> {
        let most = self.0.iter().max_by_key(|repeat| repeat.count)?;
        (most.count >= STOP_AT).then(|| (most.tool.clone(), most.count))
    }

    /// Counts a call, and says how often it came to this.
    fn count(&mut self, call: &Call, result: &CallResult) -> u32 {
        let what = signature(call, result);
        let known = self.0.iter().position(|repeat| repeat.what == what).map(|index| self.0.remove(index));
        let repeat = match known {
            Some(repeat) => Repeat { count: repeat.count.saturating_add(1), ..repeat },
            None => {
                self.0.iter_mut().for_each(|repeat| repeat.count = 1);
                Repeat { what, tool: call.tool.chars().take(NAME_CHARS_MAX).collect(), count: 1 }
            }
        };
        let count = repeat.count;
        self.0.push(repeat);
        if self.0.len() > REMEMBERED_MAX {
            self.0.remove(0);
        }
        count
    }
}

fn signature(call: &Call, result: &CallResult) -> Hash {
    let parts = (&call.tool, call.input_to_run().as_str(), &result.content, result.failed);
    // INVARIANT: text and blocks can always be written as JSON, and what cannot is at worst taken for the same.
    Hash::of(&serde_json::to_vec(&parts).unwrap_or_default())
}

impl Session {
    /// Counts a call that is about to be done; what the model is to know about that is added to the result.
    pub(crate) fn guard_against_loops(&mut self, id: CallId, result: &mut CallResult) {
        let Some(call) = self.call(id).filter(|call| !matches!(call.state, CallState::Done(_))).cloned()
        else {
            return;
        };
        let Some(run) = &mut self.run else { return };
        let count = run.repeats.count(&call, result);
        if count >= TELL_AT {
            // First, because a long result is cut at its end.
            result.content.insert(0, Block::text(warning(&call.tool, count)));
        }
    }
}

fn warning(tool: &str, count: u32) -> String {
    let stop = if count < STOP_AT {
        format!("after {STOP_AT} times the run is stopped")
    } else {
        "the run was stopped for that".to_owned()
    };
    format!(
        "(this is the same call of `{tool}` with the same arguments and the same result as before, {count} times now; \
         repeating it changes nothing, so do something else or say what is missing; {stop})\n"
    )
}
