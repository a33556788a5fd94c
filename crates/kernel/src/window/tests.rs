use weir_events::*;
use weir_types::{FailureClass, Seq, Stop};

use super::*;
use crate::session::Entry;
use crate::story::{Story, agent};

/// A conversation of a message and then so many steps of about so many tokens each, and a window with that budget.
fn story(steps: usize, tokens: usize, budget: u64) -> Story {
    let mut story = Story::of_a_run();
    story.agent.limits.iterations = 1_000;
    story.agent.card.context_window = 10_000_000;
    for _ in 0..steps {
        story.use_tool("read", &"r".repeat(tokens * 4));
    }
    let (fixed, output) = (story.agent.fixed_tokens(), 1_000);
    story.agent.card.context_window = budget + fixed + output;
    story.agent.limits.output_tokens = Some(output);
    assert_eq!(super::budget(&story.session, &story.agent), budget);
    story
}

fn seqs(story: &Story) -> Vec<Seq> {
    story.session.transcript.entries.iter().map(Entry::seq).collect()
}

fn selected(story: &Story) -> Window {
    select(&story.session, &story.agent).unwrap()
}

#[test]
fn a_conversation_that_fits_is_shown_whole() {
    let story = story(3, 100, 10_000);
    let seqs = seqs(&story);
    let window = selected(&story);
    assert_eq!(window.ranges, [[seqs[0], seqs[3]]]);
    assert_eq!((window.dropped, window.dropped_tokens), (0, 0));
    assert_eq!(window.cut, cut(&story.agent));
}

#[test]
fn the_oldest_steps_are_dropped_but_never_the_latest_message() {
    let story = story(12, 60, 800);
    let seqs = seqs(&story);
    let window = selected(&story);
    let sizes: Vec<u64> = render::units(&story.session).iter().map(|unit| unit.tokens(window.cut)).collect();
    let (dropped, kept): (u64, u64) = (sizes[1..5].iter().sum(), sizes[5..].iter().sum());
    assert_eq!(window.ranges, [[seqs[0], seqs[0]], [seqs[5], seqs[12]]]);
    assert_eq!((window.dropped, window.dropped_tokens, window.tokens), (4, dropped, sizes[0] + kept));
    assert!(window.tokens + sizes[4] > 800);
    assert_eq!(window.cut, cut(&story.agent));
}

#[test]
fn a_window_begins_with_the_user() {
    let mut story = story(3, 20, 300);
    story.ask();
    story.answer("done");
    let (usage, cost) = Default::default();
    story.add(RunFinished { stop: Stop::End, answer: None, usage, cost });
    let latest = story.say("next");
    assert_eq!(selected(&story).ranges, [[seqs(&story)[0], latest]]);
    story.agent.card.context_window = 1_000 + story.agent.fixed_tokens() + selected(&story).tokens;
    assert_eq!(selected(&story).dropped, 0);
    // Room for all the answers, but not for the message that they answer.
    story.agent.card.context_window -= 1;
    let window = selected(&story);
    assert_eq!((window.ranges, window.dropped), (vec![[latest, latest]], 5));
}

#[test]
fn a_summary_may_stand_before_an_answer() {
    let mut story = story(4, 10, 300);
    let seqs = seqs(&story);
    story.summarised(seqs[1], "the first was read");
    let window = selected(&story);
    assert_eq!(window.ranges, [[seqs[2], seqs[4]]]);
    // What comes before is counted.
    assert_eq!(crate::tokens::of_messages(&story.request().messages), window.tokens);
    story.agent.card.context_window = 1_000 + story.agent.fixed_tokens() + window.tokens - 1;
    let window = selected(&story);
    assert_eq!((window.ranges, window.dropped), (vec![[seqs[3], seqs[4]]], 1));
}

#[test]
fn a_summary_alone_may_stand_before_an_answer() {
    let mut story = story(3, 10, 300);
    let latest = story.say("next");
    story.ask();
    let seqs = seqs(&story);
    story.summarised(seqs[1], "the first was read");
    assert_eq!(story.session.transcript.pinned, None);
    story.agent.card.context_window = 1_000 + story.agent.fixed_tokens() + selected(&story).tokens - 1;
    assert_eq!(selected(&story).ranges, [[seqs[3], latest]]);
}

#[test]
fn what_has_not_been_told_is_told() {
    let mut story = story(1, 100, 10_000);
    let latest = story.say("wait");
    let seqs = seqs(&story);
    assert_eq!(selected(&story).ranges, [[seqs[0], latest]]);
}

#[test]
fn without_a_message_there_is_no_window() {
    assert_eq!(select(&Story::new().session, &agent()), None);
}

#[test]
fn a_result_is_cut_to_a_sixth_and_a_message_to_half() {
    let mut story = story(1, 100_000, 6_000);
    assert_eq!(cut(&story.agent), Cut { share_tokens: 1_000 });
    assert!((1_000..1_100).contains(&selected(&story).tokens), "{:?}", selected(&story));
    story.say(&"m".repeat(100_000));
    assert!((4_000..4_200).contains(&selected(&story).tokens), "{:?}", selected(&story));
}

#[test]
fn where_not_even_the_newest_would_fit_more_is_cut() {
    let mut story = story(1, 100_000, 6_000);
    story.say(&"m".repeat(100_000));
    // The provider counts four times what we estimate, so that a quarter of the budget is left.
    story.session.gauge.learn(1_000, 4_000);
    let budget = budget(&story.session, &story.agent);
    let window = selected(&story);
    assert!(budget < 1_760 && window.tokens <= budget, "{window:?} {budget}");
    assert_eq!(window.cut, Cut { share_tokens: 250 });
    assert_eq!(window.dropped, 0);
}

#[test]
fn the_newest_step_is_given_up_before_the_message() {
    let mut story = story(0, 0, 1_000);
    story.ask();
    // What the model says is never cut.
    story.answer_blocks(vec![weir_types::Block::text("a".repeat(8_000))], Stop::Paused);
    let window = selected(&story);
    let seq = seqs(&story)[0];
    assert_eq!((window.ranges, window.dropped), (vec![[seq, seq]], 1));
    assert_eq!(window.cut, cut(&story.agent));
}

#[test]
fn a_window_that_overflowed_is_halved() {
    let mut story = story(2, 1_000, 10_000);
    story.ask();
    let sent = selected(&story).tokens;
    story.fails(FailureClass::ContextOverflow);
    let halved = budget(&story.session, &story.agent);
    assert!(halved <= sent / 2 && halved > sent / 3, "{halved} of {sent}");
    // The next iteration begins anew.
    story.requested(2, weir_types::Purpose::Turn);
    story.answer("ok");
    assert_eq!(budget(&story.session, &story.agent), 10_000);
}

#[test]
fn a_reservation_is_the_input_and_a_quarter_and_a_full_answer() {
    let mut story = story(1, 100, 10_000);
    let input = story.agent.fixed_tokens() + selected(&story).tokens;
    let tokens = input * 5 / 4 + 1_000;
    let expected = Reserve { tokens, nano: NanoUsd(tokens * 1_000) };
    assert_eq!(reserve(&story.session, &story.agent), expected);
    story.session.gauge.learn(100, 200);
    assert_eq!(reserve_for(&story.session, &story.agent, 100, 10).tokens, 260);
    story.agent.card.price = None;
    assert_eq!(reserve(&story.session, &story.agent).nano, NanoUsd(0));
}
