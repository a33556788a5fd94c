//! `models` of a project: what it adds to the catalog.

use weir_types::{ModelCard, Price, Wire};

use crate::diagnostic::Findings;
use crate::fields::Fields;
use crate::format;
use crate::shape::{Choice, Kind, Shape, optional, required, words};

pub(super) static MODEL: Shape = Shape {
    what: "a model",
    doc: "What is known about a model.",
    fields: &[
        required("wire", "wire: openai-chat", Kind::Word(|| words(WIRES)), "How its provider is spoken to."),
        optional("api_name", Kind::Text, "The provider's own name of it, if it differs."),
        optional(
            "base_url",
            Kind::Format(&format::URL),
            "Where the provider is, if not at the wire's usual place.",
        ),
        optional("key_env", Kind::Format(&format::VARIABLE), "The environment variable with the key."),
        required(
            "context_window",
            "context_window: 128000",
            Kind::Count,
            "Tokens of input and output together.",
        ),
        required("output_max", "output_max: 8192", Kind::Count, "Most tokens of one answer."),
        optional("price", Kind::Shape(&PRICE), "What it costs. Limits in dollars need it."),
        optional("regions", Kind::List(&Kind::Format(&format::REGION)), "Where it runs."),
    ],
    choice: Choice::Free,
    instead: &[
        ("provider", "the provider is a part of the name: `provider/name`; how it is spoken to is `wire`"),
        ("max_tokens", "write `output_max`"),
        ("max_output", "write `output_max`"),
        ("api_key", "write `key_env`, with the name of an environment variable"),
        ("key", "write `key_env`, with the name of an environment variable"),
    ],
};

static PRICE: Shape = Shape {
    what: "a price, in dollars per million tokens,",
    doc: "Dollars per million tokens.",
    fields: &[
        required("input", "input: 3.00", Kind::Price, "Tokens sent."),
        required("output", "output: 15.00", Kind::Price, "Tokens received."),
        optional("cache_read", Kind::Price, "Tokens read from the provider's cache; as `input`, if absent."),
        optional("cache_write", Kind::Price, "Tokens written to it; as `input`, if absent."),
    ],
    choice: Choice::Free,
    instead: &[],
};

const WIRES: &[(&str, Wire)] = &[
    (Wire::Anthropic.as_str(), Wire::Anthropic),
    (Wire::OpenaiChat.as_str(), Wire::OpenaiChat),
    (Wire::OpenaiResponses.as_str(), Wire::OpenaiResponses),
    (Wire::Gemini.as_str(), Wire::Gemini),
    (Wire::Scripted.as_str(), Wire::Scripted),
    (Wire::Echo.as_str(), Wire::Echo),
    (Wire::Replay.as_str(), Wire::Replay),
];

/// The models of a project, in the order of the file.
pub(super) fn read(fields: &Fields<'_>, findings: &mut Findings) -> Vec<(String, ModelCard)> {
    let mut models = Vec::new();
    for entry in fields.entries("models") {
        let Some(inner) = Fields::of(&entry.value, &MODEL) else { continue };
        models.extend(model(&inner, findings).map(|card| (entry.key.value.clone(), card)));
    }
    models
}

fn model(fields: &Fields<'_>, findings: &mut Findings) -> Option<ModelCard> {
    let regions = fields.texts("regions").into_iter().map(|region| region.value).collect();
    let card = ModelCard {
        wire: fields.word("wire", WIRES)?,
        api_name: fields.words("api_name"),
        base_url: fields.words("base_url"),
        key_env: fields.words("key_env"),
        context_window: fields.count("context_window")?,
        output_max: fields.count("output_max")?,
        price: fields.fields("price").and_then(|fields| price(&fields)),
        regions,
    };
    if card.output_max >= card.context_window {
        let message = "`output_max` leaves no room for a question in `context_window`";
        let help = "the context window holds input and output together";
        findings.add("spec::contradiction", fields.place_of("output_max"), message, help);
    }
    Some(card)
}

/// Without prices of their own, cached tokens cost what others cost.
fn price(fields: &Fields<'_>) -> Option<Price> {
    let usd = |name: &str| fields.usd(name).map(|usd| usd.value);
    let (input, output) = (usd("input")?, usd("output")?);
    let cached = |name: &str| usd(name).unwrap_or(input);
    Some(Price { input, output, cache_read: cached("cache_read"), cache_write: cached("cache_write") })
}
