//! `agents/<name>/spec.yaml`.

use weir_spec::{AgentSpec, Limits};
use weir_types::Catalog;

use crate::shown;

const FILE: &str = "agents/helper/spec.yaml";

fn problems(yaml: &str) -> String {
    match AgentSpec::read(FILE, yaml.as_bytes()) {
        Ok(spec) => format!("no problem: {spec:?}"),
        Err(problems) => shown(yaml.as_bytes(), &problems),
    }
}

#[test]
fn a_short_spec_has_defaults() {
    let spec = AgentSpec::read(FILE, b"{name: helper, model: offline/echo}").unwrap();
    assert_eq!((spec.limits, spec.tools, spec.description.as_str()), (Limits::default(), vec![], ""));
}

#[test]
fn syntax_errors_have_a_place() {
    insta::assert_snapshot!(problems("name: helper\nmodel: a: b\n"), @"
    2:9 ‹:› spec::syntax
      a `:` is not expected here
      → put text with `: ` in quotes, or check the indentation
    ");
    insta::assert_snapshot!(problems("name: helper\n\tmodel: x\n"), @r"
    2:1 ‹\t› spec::syntax
      a tab cannot indent
      → indent with spaces
    ");
    insta::assert_snapshot!(problems("name: helper\nlimits:\n\titerations: 5\n"), @r"
    3:1 ‹\t› spec::syntax
      a tab cannot indent
      → indent with spaces
    ");
    insta::assert_snapshot!(problems("name: \"helper\nmodel: x\n"), @r#"
    1:7 ‹\"› spec::syntax
      a quote is not closed, or its next line is not indented
      → close it on the line it began
    "#);
    insta::assert_snapshot!(problems("name: helper\nlimits: { iterations: 5\n"), @"
    2:23 ‹5› spec::syntax
      a `,` or `}` is missing after this
      → close the mapping; text with `,` or `}` needs quotes
    ");
    insta::assert_snapshot!(problems("name: @helper\n"), @"
    1:7 ‹@› spec::syntax
      text cannot begin with this character
      → put it in quotes
    ");
    insta::assert_snapshot!(problems("name: *helper\n"), @"
    1:7 ‹*› spec::syntax
      no anchor of this name comes before it
      → text that begins with `*` needs quotes; an alias needs `&name` at the value it repeats
    ");
    insta::assert_snapshot!(problems("name: helper\nmodel x\n"), @"
    2:7 ‹x› spec::syntax
      a `:` is missing after this
      → write `key: value`
    ");
}

#[test]
fn the_model_is_looked_up_where_it_is_written() {
    let catalog = Catalog::parse(
        r#"{"acme/smart": {"wire": "anthropic", "context_window": 9, "output_max": 1},
            "acme/paid": {"wire": "anthropic", "context_window": 9, "output_max": 1, "price": {"input": "1", "output": "2"}}}"#,
    )
    .unwrap();
    let find = |yaml: &str| match AgentSpec::read(FILE, yaml.as_bytes()).unwrap().find_model(&catalog) {
        Ok((name, _)) => name,
        Err(problems) => shown(yaml.as_bytes(), &problems),
    };
    assert_eq!(find("name: helper\nmodel: smart"), "acme/smart");
    assert_eq!(find("name: helper\nmodel: paid\nlimits: {usd: 1}"), "acme/paid");
    insta::assert_snapshot!(find("name: helper\nmodel: acme/smrat\n"), @"
    2:8 ‹acme/smrat› spec::unknown-model
      unknown model `acme/smrat`
      → did you mean `acme/smart`?
    ");
    insta::assert_snapshot!(find("name: helper\nmodel: smart\nlimits: {usd: 0.10}\n"), @"
    3:15 ‹0.10› spec::no-price
      a limit in dollars needs a price, and `acme/smart` has none
      → remove `usd`, or give the model a price under `models:` in weir.yaml
    ");
}
