//! Policies that were written by hand: one by one, with their places.

use std::ops::Range;
use std::str::FromStr as _;

use cedar_policy::{ParseErrors, Policy, PolicySet};

/// The policies of a file, in its order.
///
/// # Errors
/// When it is no Cedar.
pub(crate) fn split(text: &str) -> Result<Vec<(Range<usize>, Policy)>, Box<ParseErrors>> {
    let set = PolicySet::from_str(text).map_err(Box::new)?;
    let mut policies: Vec<Policy> = set.policies().cloned().collect();
    // Cedar numbers them: `policy0`, `policy1`.
    policies.sort_by_key(|policy| {
        let id: &str = policy.id().as_ref();
        id.trim_start_matches("policy").parse::<usize>().unwrap_or(usize::MAX)
    });
    let mut from = 0;
    let place = |policy: Policy| {
        let own = policy.to_cedar().unwrap_or_default();
        let start = text.get(from..).and_then(|rest| rest.find(&own)).map_or(from, |at| from + at);
        from = (start + own.len()).min(text.len());
        (start..from, policy)
    };
    Ok(policies.into_iter().map(place).collect())
}

/// Whether a policy may read arguments by itself.
pub(crate) fn reads_arguments(text: &str) -> bool {
    text.contains("arguments") || text.contains("numbers")
}

/// The line of a byte, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Whether a file has templates. They say nothing until someone fills them in, which nobody does.
pub(crate) fn has_templates(text: &str) -> bool {
    PolicySet::from_str(text).is_ok_and(|set| set.num_of_templates() > 0)
}
