//! Random agents: small and large windows, tight and loose limits, one tool of each sort.

use proptest::option;
use proptest::prelude::*;
use weir_kernel::{Agent, Limits, Tool};
use weir_types::{
    ApprovalTerms, Effect, Json, ModelCard, NanoUsd, OnInterrupt, Price, Risk, ToolDefinition, Wire,
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    window: u64,
    output: u64,
    system: usize,
    iterations: u64,
    tokens: Option<u64>,
    wall_clock_ms: Option<u64>,
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let window = prop_oneof![1 => 60..400u64, 3 => 400..3_000u64, 2 => 3_000..20_000u64];
    (
        window,
        10..2_000u64,
        0..200usize,
        1..6u64,
        option::weighted(0.1, 500..50_000u64),
        option::weighted(0.1, 1..500u64),
    )
        .prop_map(|(window, output, system, iterations, tokens, wall_clock_ms)| Settings {
            window,
            output,
            system,
            iterations,
            tokens,
            wall_clock_ms,
        })
}

impl Settings {
    pub(crate) fn agent(&self) -> Agent {
        let price = NanoUsd(1_000_000_000);
        let price = Price { input: price, output: price, cache_read: price, cache_write: price };
        Agent {
            name: "sim".into(),
            model: "sim/model".into(),
            card: ModelCard {
                wire: Wire::Scripted,
                api_name: None,
                base_url: None,
                key_env: None,
                context_window: self.window,
                output_max: self.output,
                price: Some(price),
                regions: vec![],
            },
            system: "s".repeat(self.system),
            tools: TOOLS.iter().map(tool).collect(),
            limits: Limits {
                iterations: self.iterations,
                tokens: self.tokens,
                wall_clock_ms: self.wall_clock_ms,
                ..Limits::default()
            },
        }
    }
}

/// Name, effect, what a crash means.
pub(crate) const TOOLS: [(&str, Effect, OnInterrupt); 7] = [
    ("fs_read", Effect::Read, OnInterrupt::Report),
    ("put", Effect::Idempotent, OnInterrupt::Report),
    ("write", Effect::Write, OnInterrupt::Report),
    ("ask", Effect::Write, OnInterrupt::Ask),
    ("retry", Effect::Write, OnInterrupt::Retry),
    ("child", Effect::Write, OnInterrupt::Report),
    ("guarded", Effect::Write, OnInterrupt::Report),
];

fn tool((name, effect, on_interrupt): &(&str, Effect, OnInterrupt)) -> Tool {
    let (name, schema) = ((*name).to_owned(), Json::empty_object());
    Tool {
        definition: ToolDefinition { name: name.clone(), description: String::new(), schema },
        source: "sim".into(),
        effect: *effect,
        risk: Risk::Low,
        on_interrupt: *on_interrupt,
        agent: (name == "child").then(|| "other".to_owned()),
        approval: ApprovalTerms::default(),
    }
}
