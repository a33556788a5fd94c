//! What policies may speak about. Everything that is not here is an error at build.

use std::sync::LazyLock;

use cedar_policy::Schema;

/// The schema, in Cedar's own notation.
pub const SCHEMA: &str = r#"entity Group in [Group];
entity User in [Group];
entity ServiceAccount in [Group];
entity Agent;
entity Loop;
entity Tool;
entity Stream;
entity Blob;
entity Knowledge;
entity Effect enum ["read", "idempotent", "write"];
entity Risk enum ["low", "medium", "high"];
entity Arguments tags String;
entity Numbers tags Long;

// An agent calls a tool on behalf of the principal. `input` names the tests of rules that the arguments pass. `arguments` has
// each scalar argument as text and `numbers` each whole number, by path: `context.arguments.getTag("to.0.address")`.
action call appliesTo {
  principal: [User, ServiceAccount],
  resource: Tool,
  context: {
    tool: String,
    source: String,
    agent: Agent,
    effect: Effect,
    risk: Risk,
    input: Set<String>,
    arguments: Arguments,
    numbers: Numbers
  }
};

// Talking to an agent; triggering a loop.
action execute appliesTo { principal: [User, ServiceAccount], resource: [Agent, Loop] };

// Saying yes to a call of an agent; `own` if it is made on behalf of the principal.
action approve appliesTo { principal: [User, ServiceAccount], resource: Agent, context: { own: Bool } };

// Looking and changing; `mine` if it belongs to the principal, `shared` if it belongs to nobody.
action read appliesTo {
  principal: [User, ServiceAccount],
  resource: [Loop, Stream, Blob, Knowledge],
  context: { mine: Bool, shared: Bool }
};
action write appliesTo {
  principal: [User, ServiceAccount],
  resource: [Stream, Blob, Knowledge],
  context: { mine: Bool, shared: Bool }
};
"#;

/// The schema, read once. A test reads it; the text is a constant.
pub(crate) static READ: LazyLock<Option<Schema>> =
    LazyLock::new(|| Some(Schema::from_cedarschema_str(SCHEMA).ok()?.0));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_policies_has_the_schema_and_examples_that_fit_it() {
        let page = include_str!("../../../docs/policies.md");
        assert!(page.contains(&format!("```cedarschema\n{SCHEMA}```")), "copy SCHEMA into docs/policies.md");
        let example = page.split("```cedar\n").nth(1).unwrap().split("```").next().unwrap();
        let written = [("policies/example.cedar".to_owned(), example.to_owned())].into();
        let compiled = crate::compile(&crate::Source { written, ..crate::Source::default() }).unwrap();
        assert_eq!(compiled.warnings, []);
    }

    #[test]
    fn the_schema_is_one() {
        let (_, warnings) = Schema::from_cedarschema_str(SCHEMA).unwrap();
        assert_eq!(warnings.map(|warning| warning.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
        assert!(READ.is_some());
    }
}
