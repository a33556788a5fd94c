//! `agents/<name>/spec.yaml`.

use std::time::Duration;

use weir_spec::{AgentSpec, Limits};
use weir_types::{Catalog, NanoUsd};

use crate::shown;

const FILE: &str = "agents/helper/spec.yaml";

fn problems(yaml: &str) -> String {
    match AgentSpec::read(FILE, yaml.as_bytes()) {
        Ok(spec) => format!("no problem: {spec:?}"),
        Err(problems) => shown(yaml.as_bytes(), &problems),
    }
}

#[test]
fn a_whole_spec_reads() {
    let yaml = "\
# comments are fine
name: helper
model: anthropic/claude-sonnet-4-5
description: |
  You answer questions.
  Cite file paths.
tools:
  - name: get_time
limits: { iterations: 3, usd: 0.50, wall_clock: 1h30m, output_tokens: 4096, context_tokens: 100000, tokens: 5, model_calls: 2 }
";
    let spec = AgentSpec::read(FILE, yaml.as_bytes()).unwrap();
    assert_eq!(spec.name.value, "helper");
    assert_eq!(&yaml[spec.model.span.start..spec.model.span.end], "anthropic/claude-sonnet-4-5");
    assert_eq!((spec.model.span.line, spec.model.span.column), (3, 8));
    assert_eq!(spec.description, "You answer questions.\nCite file paths.\n");
    assert_eq!(spec.tools.iter().map(|tool| tool.name.value.as_str()).collect::<Vec<_>>(), ["get_time"]);
    let usd = spec.limits.usd.clone();
    assert_eq!(usd.as_ref().map(|usd| usd.value), Some(NanoUsd(500_000_000)));
    let expected = Limits {
        iterations: 3,
        usd,
        wall_clock: Some(Duration::from_secs(5_400)),
        output_tokens: Some(4_096),
        context_tokens: Some(100_000),
        tokens: Some(5),
        model_calls: Some(2),
    };
    assert_eq!(spec.limits, expected);
}

#[test]
fn a_short_spec_has_defaults() {
    let spec = AgentSpec::read(FILE, b"{name: helper, model: offline/echo}").unwrap();
    assert_eq!((spec.limits, spec.tools, spec.description.as_str()), (Limits::default(), vec![], ""));
}

#[test]
fn line_endings_and_a_byte_order_mark_do_not_move_places() {
    let yaml = "\u{feff}name: helper\r\nmodel: offline/echo\r\ndescription: 'né'\r\ntols: []\r\n";
    insta::assert_snapshot!(problems(yaml), @r"
    4:1 ‹tols› spec::unknown-key
      an agent has no field `tols`
      → did you mean `tools`?
    ");
}

#[test]
fn every_problem_is_told_at_once() {
    let yaml = "\
nmae: helper
model: ''
model: offline/echo
description: [a, b]
skills: [skills.sh/acme/citations@1.0]
acl: []
tools:
  - name: get_tiem
  - name: bash
  - name: tools/lookup-weather
  - server: mcp://npx/x
    access: read
  - get_time
  - name: get_time
    approval: always
  - name: get_time
  - {}
limits:
  iterations: ten
  usd: 1,50
  wall_clock: 5
  output_tokens: 0
  token: 12
colour: red
";
    insta::assert_snapshot!(problems(yaml));
}

#[test]
fn the_wrong_kind_of_document() {
    insta::assert_snapshot!(problems(""), @"
    1:1 ‹› spec::empty
      the file is empty
      → give it its fields, such as `name: …`
    ");
    insta::assert_snapshot!(problems("# nothing\n"), @"
    1:1 ‹› spec::empty
      the file is empty
      → give it its fields, such as `name: …`
    ");
    insta::assert_snapshot!(problems("just text\n"), @"
    1:1 ‹just text› spec::wrong-value
      an agent is a mapping of fields, not `just text`
      → its fields are: name, model, description, tools, limits
    ");
    insta::assert_snapshot!(problems("- a\n- b\n"), @r"
    1:1 ‹- a\n- b› spec::wrong-value
      an agent is a mapping of fields, not a list
      → its fields are: name, model, description, tools, limits
    ");
    insta::assert_snapshot!(problems("name: helper\nmodel: m/n\n---\nname: other\n"), @"
    3:1 ‹---› spec::syntax
      a second document begins here
      → keep one document per file; remove the `---`
    ");
    insta::assert_snapshot!(problems("name: !!str helper\nmodel: m/n\n"), @"
    1:7 ‹!!str helper› spec::syntax
      the tag `!!str` has no meaning here
      → remove it; text that looks like a number goes in quotes
    ");
    insta::assert_snapshot!(problems("{a: b}: c\nname: helper\nmodel: m/n\nlimits:\ntools: 5"), @r#"
    1:1 ‹{a: b}› spec::syntax
      a key is text, not a mapping
      → text that begins with `{` needs quotes, like `"{{1}}"`
    4:7 ‹› spec::wrong-value
      `limits` is a mapping of fields, not nothing
      → its fields are: iterations, usd, wall_clock, output_tokens, context_tokens, tokens, model_calls
    5:8 ‹5› spec::wrong-value
      `tools` is a list, not `5`
      → write `[…]`, or lines that begin with `- `
    "#);
}

#[test]
fn names_fit_the_directory_and_the_models_alphabet() {
    insta::assert_snapshot!(problems("name: other\nmodel: m/n\n"), @"
    1:7 ‹other› spec::name-differs
      the agent is called `other`, but its directory is `helper`
      → write `name: helper`, or rename the directory
    ");
    insta::assert_snapshot!(problems("name: my helper\nmodel: m/n\n"), @"
    1:7 ‹my helper› spec::bad-name
      `my helper` cannot be a name
      → use 1 to 64 of the letters a-z and A-Z, digits, `-` and `_`
    ");
    insta::assert_snapshot!(problems("limits: {}\n"), @"
    1:1 ‹limits› spec::missing
      an agent needs `name`
      → add it, for example `name: helper`
    1:1 ‹limits› spec::missing
      an agent needs `model`
      → add it, for example `model: offline/echo`
    ");
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
