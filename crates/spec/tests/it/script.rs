//! `models/<name>.yaml`.

use std::time::Duration;

use weir_spec::{Call, Reply, Script, When};
use weir_types::{FailureClass, Json, Stop, Usage};

use crate::read_one;

/// The script of a project that has nothing else.
fn script(yaml: &str) -> Script {
    let mut reading = read_one("models/demo.yaml", yaml);
    let problems: Vec<&str> = reading.diagnostics.iter().map(|problem| problem.code).collect();
    assert_eq!(problems, ["spec::unused-script", "spec::no-agents"]);
    reading.sources.scripts.remove("demo").unwrap()
}

#[test]
fn the_script_of_the_design_reads() {
    let yaml = r#"
replies:
  - when: { user: '(?i)weather in (\w+)' }     # regex on the latest user message
    think: "I need the forecast."
    say: "Let me look."
    call: [{ tool: lookup_weather, input: { unit: C, city: "{{1}}" } }, { tool: get_time }]
  - when: { tool: lookup_weather, failed: true }
    say: "It is {{result.temp}} degrees."
  - when: { summarize: true }
    say: "Earlier we talked about the weather."
  - when: { user: "overload" }
    error: overloaded
    times: 2
    delay: 50ms
  - say: "I did not understand."
    usage: { input: 1200, output: 80 }
    chunk: 5
    stop: max_tokens
"#;
    let text = |text: &str| Some(text.to_owned());
    let expected = Script {
        replies: vec![
            Reply {
                when: Some(When { user: text(r"(?i)weather in (\w+)"), ..When::default() }),
                think: text("I need the forecast."),
                say: text("Let me look."),
                call: vec![
                    Call {
                        tool: "lookup_weather".to_owned(),
                        input: Json::parse(r#"{"unit":"C","city":"{{1}}"}"#).unwrap(),
                    },
                    Call { tool: "get_time".to_owned(), input: Json::empty_object() },
                ],
                ..Reply::default()
            },
            Reply {
                when: Some(When { tool: text("lookup_weather"), failed: Some(true), ..When::default() }),
                say: text("It is {{result.temp}} degrees."),
                ..Reply::default()
            },
            Reply {
                when: Some(When { summarize: true, ..When::default() }),
                say: text("Earlier we talked about the weather."),
                ..Reply::default()
            },
            Reply {
                when: Some(When { user: text("overload"), ..When::default() }),
                error: Some(FailureClass::Overloaded),
                times: Some(2),
                delay: Some(Duration::from_millis(50)),
                ..Reply::default()
            },
            Reply {
                say: text("I did not understand."),
                usage: Some(Usage { input_tokens: 1_200, output_tokens: 80, ..Usage::default() }),
                chunk: Some(5),
                stop: Some(Stop::MaxTokens),
                ..Reply::default()
            },
        ],
    };
    assert_eq!(script(yaml), expected);
}

/// A model that says nothing is a model too: tests need one.
#[test]
fn nothing_can_be_said() {
    let script = script("replies: [{ say: '' }]");
    assert_eq!(script.replies, [Reply { say: Some(String::new()), ..Reply::default() }]);
}
