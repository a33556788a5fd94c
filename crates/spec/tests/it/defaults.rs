//! What is left out: files that say little.

use weir_spec::Limits;
use weir_types::{ModelCard, NanoUsd, Price, Wire};

use crate::{catalog, read_one};

#[test]
fn a_short_spec_has_defaults() {
    let reading = read_one("agents/helper/spec.yaml", "{ name: helper, model: offline/echo }");
    assert_eq!(reading.diagnostics, []);
    let spec = &reading.sources.agents["helper"].spec;
    assert_eq!(
        (&spec.limits, spec.tools.as_slice(), spec.description.as_str()),
        (&Limits::default(), &[][..], "")
    );
}

#[test]
fn a_project_adds_models() {
    let yaml = "
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
    let reading = read_one("weir.yaml", yaml);
    let problems: Vec<&str> = reading.diagnostics.iter().map(|problem| problem.code).collect();
    assert_eq!(problems, ["spec::no-agents"]);
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
    let models = [("local/llama".to_owned(), llama), ("scripted/demo".to_owned(), demo)];
    assert_eq!(reading.sources.project.models, models);
    let mut known = catalog();
    for (name, card) in models {
        known.insert(name, card);
    }
    assert_eq!(reading.sources.catalog, known);
}
