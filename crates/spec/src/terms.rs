//! How long an approval is waited for: `within` and `escalate` of rules and tools.

use weir_types::{ApprovalTerms, Escalate};

use crate::Principal;
use crate::diagnostic::{Findings, Spanned};
use crate::fields::Fields;
use crate::format;
use crate::shape::{Choice, Field, Kind, Shape, optional, required};

/// `within`.
pub(crate) const WITHIN: Field = optional(
    "within",
    Kind::Duration,
    "How long an approval is waited for. Then it is too late: the call is refused, and the model is told.",
);

/// `escalate`.
pub(crate) const ESCALATE: Field = optional(
    "escalate",
    Kind::Shape(&ESCALATION),
    "Who may approve, too, when nobody has decided for a while.",
);

static ESCALATION: Shape = Shape {
    what: "`escalate`",
    doc: "Who may approve, too, when nobody has decided for a while.",
    fields: &[
        required("to", "to: group:managers", Kind::Format(&format::PRINCIPAL), "The group."),
        required("after", "after: 30m", Kind::Duration, "How long after the call was asked about."),
    ],
    choice: Choice::Free,
    instead: &[("group", "write `to: group:NAME`")],
};

/// Reads both, and the group that is named.
pub(crate) fn read(
    fields: &Fields<'_>,
    findings: &mut Findings,
) -> (ApprovalTerms, Option<Spanned<Principal>>) {
    let within_ms = fields.millis("within");
    if within_ms == Some(0) {
        let message = "an approval cannot be given within no time";
        findings.add("spec::contradiction", fields.place_of("within"), message, "write `within: 1h`");
    }
    let Some(escalation) = fields.fields("escalate") else {
        return (ApprovalTerms { within_ms, escalate: None }, None);
    };
    let (Some(to), Some(after_ms)) = (escalation.parsed::<Principal>("to"), escalation.millis("after"))
    else {
        return (ApprovalTerms { within_ms, escalate: None }, None);
    };
    if !matches!(to.value, Principal::Group(_)) {
        let message = format!("`{}` is no group", to.value);
        findings.add("spec::wrong-value", to.span, message, "write `to: group:NAME`");
    }
    if within_ms.is_some_and(|within| after_ms >= within) {
        let message = "by then it is too late to approve: `after` is not before `within`";
        let help = "write a shorter `after`, or a longer `within`";
        findings.add("spec::contradiction", escalation.place_of("after"), message, help);
    }
    let escalate = Some(Escalate { to: to.value.to_string(), after_ms });
    (ApprovalTerms { within_ms, escalate }, Some(to))
}
