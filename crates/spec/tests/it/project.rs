//! `weir.yaml`.

use weir_spec::Project;
use weir_types::{ModelCard, NanoUsd, Price, Wire};

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
