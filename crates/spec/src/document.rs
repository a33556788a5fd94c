//! From the bytes of a file to a mapping that was checked; and what all files have in common.

use crate::check::check;
use crate::diagnostic::{Findings, Spanned};
use crate::format::is_name;
use crate::node::Node;
use crate::shape::{Kind, Shape};
use crate::yaml;

/// The document of a file, checked against what it may be.
pub(crate) fn read(bytes: &[u8], shape: &'static Shape, findings: &mut Findings) -> Option<Node> {
    let mut root = yaml::document(bytes, findings)?;
    check(&mut root, "", &Kind::Shape(shape), findings);
    Some(root)
}

/// A thing is found by its path and known by its name; two names for one thing would be one too many.
pub(crate) fn check_name(
    name: &Spanned<String>,
    expected: Option<&str>,
    what: &str,
    place: &str,
    findings: &mut Findings,
) {
    let expected = expected.filter(|expected| !name.value.is_empty() && *expected != name.value);
    let Some(expected) = expected else { return };
    let message = format!("the {what} is called `{}`, but its {place} is `{expected}`", name.value);
    let help = match is_name(expected) {
        true => format!("write `name: {expected}`, or rename the {place}"),
        false => format!("rename the {place} to `{}`", name.value),
    };
    findings.add("spec::name-differs", name.span, message, help);
}
