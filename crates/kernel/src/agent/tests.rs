use weir_events::Allowance;
use weir_types::NanoUsd;

use crate::Limits;
use crate::story::agent;

#[test]
fn the_model_sees_every_tool() {
    let agent = agent();
    let names: Vec<String> = agent.definitions().into_iter().map(|definition| definition.name).collect();
    assert_eq!(names, ["read", "put", "write", "ask", "retry", "child"]);
}

#[test]
fn the_answer_gets_what_the_agent_asks_for_or_a_modest_part() {
    let mut agent = agent();
    let mut check = |window: u64, card: u64, limit: Option<u64>, expected: u64| {
        agent.card.context_window = window;
        agent.card.output_max = card;
        agent.limits.output_tokens = limit;
        assert_eq!(agent.output_tokens_max(), expected, "{window} {card} {limit:?}");
    };
    check(200_000, 64_000, None, 16_384);
    check(200_000, 64_000, Some(32_000), 32_000);
    check(200_000, 8_192, Some(32_000), 8_192);
    check(200_000, 0, None, 16_384);
    check(8_000, 0, None, 2_000);
    check(8_000, 0, Some(5_000), 2_000);
    check(8_000, 8_000, None, 2_000);
    check(8_000, 8_000, Some(0), 1);
}

#[test]
fn a_window_can_be_made_smaller_but_not_larger() {
    let mut agent = agent();
    for (limit, expected) in [(None, 10_000), (Some(4_000), 4_000), (Some(40_000), 10_000)] {
        agent.limits.context_tokens = limit;
        assert_eq!(agent.context_tokens(), expected, "{limit:?}");
    }
}

#[test]
fn limits_of_a_tree_are_told_apart_from_those_of_a_run() {
    let limits = Limits {
        iterations: 7,
        model_calls: Some(5),
        tokens: Some(1_000),
        usd: Some(NanoUsd(9)),
        wall_clock_ms: Some(60_000),
        ..Limits::default()
    };
    let tree = limits.of_the_tree();
    let expected = Allowance {
        model_calls: Some(5),
        tokens: Some(1_000),
        nano: Some(NanoUsd(9)),
        ..Allowance::default()
    };
    assert_eq!(tree, expected);
    let rest = Limits { iterations: 7, wall_clock_ms: Some(60_000), ..Limits::default() };
    assert_eq!(limits.without_the_tree(), rest);
    assert_eq!(rest.within(&tree), limits);
}

#[test]
fn the_smaller_of_two_limits_counts() {
    let own = Limits { tokens: Some(500), usd: Some(NanoUsd(9)), wall_clock_ms: None, ..Limits::default() };
    let most = Allowance {
        model_calls: Some(3),
        tokens: Some(1_000),
        nano: Some(NanoUsd(4)),
        wall_clock_ms: Some(1),
    };
    let limits = own.within(&most);
    assert_eq!((limits.model_calls, limits.tokens), (Some(3), Some(500)));
    assert_eq!((limits.usd, limits.wall_clock_ms), (Some(NanoUsd(4)), Some(1)));
    assert_eq!(own.within(&Allowance::default()), own);
}
