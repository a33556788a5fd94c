//! Calls that wait for someone's decision, as people read about them, and the commands that decide.

use weir_engine::{Address, Approval};
use weir_journal::now;
use weir_types::{CallId, Json, Timestamp};

use crate::output::Out;
use crate::show::{count, printable, shorten};

/// Columns for a line where nobody says how many there are.
const COLUMNS: usize = 100;

/// Lists what a session and those behind it ask, each with the commands to paste; `again` are flags that they need.
pub(crate) fn tell(approvals: &[Approval], root: &Address, again: &str, out: &Out) {
    let calls = count(approvals.len() as u64, "call");
    out.note(format_args!("{calls} of session {root} must be approved"));
    for approval in approvals {
        out.aside(format_args!(
            "  {}",
            shorten(&call(&approval.tool, &approval.input), out.columns.unwrap_or(COLUMNS).saturating_sub(2))
        ));
        out.aside(format_args!("    {}", printable(&told_by(approval, root))));
        let id = approval.id;
        let live = if again.contains("--live-writes") { "" } else { live(approval) };
        out.aside(format_args!("    weir approve {id}{again}{live}"));
        if !live.is_empty() {
            out.aside(format_args!("    weir approve {id}{again} --dry-run"));
        }
        out.aside(format_args!("    weir deny {id} -m WHY{again}"));
    }
}

/// The flag that a call needs to happen, with a space before it.
pub(crate) fn live(approval: &Approval) -> &'static str {
    if approval.stub { " --live-writes" } else { "" }
}

/// The tool and its arguments on one line.
pub(crate) fn call(tool: &str, input: &Json) -> String {
    printable(&format!("{tool} {}", input.as_str())).into_owned()
}

/// Why it is asked, and by whom if that is not the session itself.
pub(crate) fn told_by(approval: &Approval, root: &Address) -> String {
    match approval.address == *root {
        true => approval.why.clone(),
        false => format!("agent `{}`: {}", approval.agent, approval.why),
    }
}

/// How long ago a call was made. Its id says so.
pub(crate) fn age(call: CallId) -> String {
    let millis = call.to_bytes()[..6].iter().fold(0_i64, |millis, byte| millis << 8 | i64::from(*byte));
    span((now().as_micros() / 1_000).saturating_sub(millis))
}

/// How long a decision can wait.
pub(crate) fn left(expires: Option<Timestamp>) -> String {
    match expires.map(|expires| (expires.as_micros() - now().as_micros()) / 1_000) {
        None => "never".to_owned(),
        Some(..=0) => "too late".to_owned(),
        Some(millis) => format!("in {}", span(millis)),
    }
}

/// A length of time, to the unit that matters.
fn span(millis: i64) -> String {
    match millis / 1_000 {
        ..1 => "0 s".to_owned(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_unit_that_matters() {
        let spans = [-5, 999, 1_000, 119_000, 120_000, 7_199_000, 7_200_000, 172_800_000].map(span);
        assert_eq!(spans, ["0 s", "0 s", "1 s", "119 s", "2 min", "119 min", "2 h", "2 d"]);
    }

    #[test]
    fn an_age_is_counted_from_the_id() {
        assert_eq!(age(weir_journal::mint_call()), "0 s");
        let old = (now().as_micros() / 1_000 - 3 * 3_600_000) as u128;
        assert_eq!(age(CallId::from_u128(old << 80)), "3 h");
    }
}
