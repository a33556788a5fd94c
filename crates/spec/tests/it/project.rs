//! `weir.yaml`.

use weir_spec::Project;
use weir_types::{ModelCard, NanoUsd, Price, Wire};

use crate::shown;

fn problems(yaml: &str) -> String {
    match Project::read("weir.yaml", yaml.as_bytes()) {
        Ok(project) => format!("no problem: {project:?}"),
        Err(problems) => shown(yaml.as_bytes(), &problems),
    }
}

#[test]
fn a_project_adds_models() {
    let yaml = "
project: acme
models:
  local/llama:
    wire: openai-chat
    api_name: llama3.2
    base_url: http://localhost:11434/v1
    key_env: LLAMA_KEY
    context_window: 128000
    output_max: 8192
    price: { input: 0.10, output: '0.40', cache_read: 0.05 }
    regions: [eu]
  scripted/demo: { wire: scripted, context_window: 1000, output_max: 100 }
";
    let project = Project::read("weir.yaml", yaml.as_bytes()).unwrap();
    assert_eq!(project.name.map(|name| name.value).as_deref(), Some("acme"));
    let llama = ModelCard {
        wire: Wire::OpenaiChat,
        api_name: Some("llama3.2".to_owned()),
        base_url: Some("http://localhost:11434/v1".to_owned()),
        key_env: Some("LLAMA_KEY".to_owned()),
        context_window: 128_000,
        output_max: 8_192,
        price: Some(Price {
            input: NanoUsd(100_000_000),
            output: NanoUsd(400_000_000),
            cache_read: NanoUsd(50_000_000),
            cache_write: NanoUsd(100_000_000),
        }),
        regions: vec!["eu".to_owned()],
    };
    let demo = ModelCard {
        wire: Wire::Scripted,
        api_name: None,
        base_url: None,
        key_env: None,
        context_window: 1_000,
        output_max: 100,
        price: None,
        regions: vec![],
    };
    assert_eq!(project.models, [("local/llama".to_owned(), llama), ("scripted/demo".to_owned(), demo)]);
}

#[test]
fn every_problem_is_told_at_once() {
    let yaml = "
project: my project
rules: []
budget: 5
models:
  llama: { wire: openai, context_window: 10, output_max: 10 }
  acme/one:
    context_window: many
    base_url: localhost:8080
    key_env: sk-very-secret
    price: { input: cheap, cache_read: 1 }
    regions: eu
  acme/two: []
";
    let shown = problems(yaml);
    assert!(!shown.replace("‹sk-very-secret›", "").contains("sk-very-secret"), "{shown}");
    insta::assert_snapshot!(shown);
    insta::assert_snapshot!(problems("models: [a]\n"), @"
    1:9 ‹[a]› spec::wrong-value
      `models` is a mapping from name to model, not a list
      → write `models: { provider/name: { wire: … } }`
    ");
}
