use weir_events::*;
use weir_types::{FailureClass, Role, Stop};

use super::*;
use crate::session::Phase;
use crate::story::Story;

/// A run with so many steps whose results have so many characters, in a window of 10,000 tokens.
fn story(steps: usize, characters: usize) -> Story {
    let mut story = Story::of_a_run();
    story.agent.limits.iterations = 1_000;
    story.agent.card.context_window = 10_000_000;
    for _ in 0..steps {
        story.use_tool("read", &"r".repeat(characters));
    }
    story.agent.card.context_window = 10_000;
    story
}

fn planned(story: &Story) -> Option<Plan> {
    plan(&story.session, story.run(), &story.agent)
}

fn text(request: &Request) -> &str {
    request.messages[0].content[0].as_text().unwrap()
}

#[test]
fn a_conversation_within_85_percent_is_left_alone() {
    // Each step is a little over 1,000 tokens, the budget a little under 9,000.
    assert_eq!(planned(&story(7, 4_000)), None);
    assert!(planned(&story(8, 4_000)).is_some());
}

#[test]
fn a_plan_covers_the_oldest_and_keeps_40_percent() {
    let story = story(8, 4_000);
    let plan = planned(&story).unwrap();
    let entries = &story.session.transcript.entries;
    assert_eq!(plan.from, entries[0].seq());
    // One request to the summariser shows three shares; each result is somewhat less than one.
    assert_eq!(plan.through, entries[4].seq());
    let covered: u64 =
        entries[..=4].iter().map(|entry| Unit::from(entry).tokens(window::cut(&story.agent))).sum();
    assert_eq!((plan.tokens, plan.output_tokens_max), (covered, 1_000));
}

#[test]
fn a_plan_covers_as_much_as_it_takes_and_no_more() {
    let mut story = story(54, 480);
    let cut = window::cut(&story.agent);
    let sizes = |story: &Story| -> Vec<u64> {
        render::units(&story.session).iter().map(|unit| unit.tokens(cut)).collect()
    };
    let before = sizes(&story);
    let plan = planned(&story).unwrap();
    story.summarised(plan.through, &"s".repeat(400));
    let after = sizes(&story);
    let keep = window::budget(&story.session, &story.agent) * 40 / 100;
    let rest: u64 = after.iter().sum();
    assert!(rest <= keep && rest + before[before.len() - after.len() - 1] > keep, "{rest} of {keep}");
    assert_eq!(plan.tokens, before[..before.len() - after.len()].iter().sum::<u64>());
    // The next summary takes the place of this one, too.
    story.agent.limits.context_tokens = Some(4_000);
    let plan = planned(&story).unwrap();
    let cut = window::cut(&story.agent);
    let entries = story.session.transcript.entries.iter().take_while(|entry| entry.seq() <= plan.through);
    assert_eq!(plan.tokens, entries.map(|entry| Unit::from(entry).tokens(cut)).sum::<u64>() + 100);
}

#[test]
fn what_was_said_since_the_newest_answer_is_never_covered() {
    let mut story = Story::new();
    let mut check = |said: &str, expected: usize| {
        if said == "answer" {
            story.ask();
            story.answer("a");
        } else {
            story.say(said);
            story.start_run();
        }
        assert_eq!(coverable(&story.session.transcript.entries), expected, "{said}");
        let (usage, cost) = Default::default();
        story.add(RunFinished { stop: Stop::End, answer: None, usage, cost });
        if said != "answer" {
            let run = weir_types::RunId::from_u128(1);
            story.add(RunStarted { run, trigger: Trigger::Resume, lane: "direct".into() });
        }
    };
    check("one", 0);
    check("answer", 1);
    check("two", 2);
    check("answer", 3);
    let mut story = Story::new();
    for _ in 0..3 {
        story.say(&"m".repeat(16_000));
    }
    story.start_run();
    assert_eq!(planned(&story), None);
}

#[test]
fn a_little_is_not_worth_a_call_unless_something_would_be_dropped() {
    let story = |newest: usize| {
        let mut story = Story::of_a_run();
        for characters in [400, newest] {
            story.ask();
            let text = weir_types::Block::text("a".repeat(characters));
            story.answer_blocks(vec![text], Stop::Paused);
        }
        story
    };
    // Over 85 percent of the budget, and over all of it.
    assert_eq!(planned(&story(32_000)), None);
    let story = story(36_000);
    let entries = &story.session.transcript.entries;
    let plan = planned(&story).unwrap();
    assert_eq!((plan.from, plan.through), (entries[0].seq(), entries[1].seq()));
}

#[test]
fn nothing_is_summarised_in_a_window_without_room_for_the_question() {
    let mut story = story(8, 4_000);
    story.agent.limits.context_tokens = Some(300);
    assert_eq!(planned(&story), None);
}

#[test]
fn compaction_ends() {
    let mut story = story(40, 4_000);
    let mut left = story.session.transcript.entries.len();
    while let Some(plan) = planned(&story) {
        assert!(
            text(&request(&story.session, "m", &plan)).contains("CONVERSATION:\nUSER: hello") == (left == 41)
        );
        // The longest summary that is accepted.
        let longest = (plan.tokens / 2).min(2 * plan.output_tokens_max) * 4;
        let summary = "s".repeat(usize::try_from(longest).unwrap());
        assert_eq!(flaw(&plan, &summary), None);
        story.summarised(plan.through, &summary);
        let now = story.session.transcript.entries.len();
        assert!(0 < now && now < left, "{now} of {left}");
        left = now;
    }
    assert!(left < 10, "{left}");
    assert_eq!(story.session.transcript.pinned.as_ref().unwrap().content, [weir_types::Block::text("hello")]);
}

#[test]
fn the_question_shows_what_is_covered_what_came_before_and_what_was_done() {
    let mut story = story(3, 40);
    story.session.activity = Activity {
        read: vec!["a.rs".into(), "b.rs".into()],
        changed: vec!["c.rs".into()],
        failures: vec!["write: full".into()],
    };
    let entries = story.session.transcript.entries.clone();
    story.summarised(entries[1].seq(), "one was read");
    let cut = Cut { share_tokens: 1_000 };
    let through = entries[2].seq();
    let plan = Plan { from: through, through, tokens: 0, cut, output_tokens_max: 77 };
    let asked = request(&story.session, "api-name", &plan);
    let r = "r".repeat(40);
    let expected = format!(
        "SUMMARY SO FAR:\none was read\n\nCONVERSATION:\nASSISTANT: \nCALL read: {{\"n\":\"0009\"}}\nRESULT read: {r}\n\nFILES \
         READ:\na.rs\nb.rs\n\nFILES CHANGED:\nc.rs\n\nTOOL CALLS THAT FAILED:\nwrite: full\n\nSummarise all of the \
         above now."
    );
    assert_eq!(text(&asked), expected);
    assert_eq!(
        (asked.model.as_str(), asked.output_tokens_max, asked.purpose),
        ("api-name", 77, Purpose::Summary)
    );
    assert_eq!((asked.tools.len(), asked.messages.len(), asked.messages[0].role), (0, 1, Role::User));
    assert!(asked.system.contains("open tasks"));
    let (files, failures) = recorded(&story.session.activity);
    let activity = &story.session.activity;
    assert_eq!(
        (&files.read, &files.changed, &failures),
        (&activity.read, &activity.changed, &activity.failures)
    );
}

#[test]
fn the_question_fits_whatever_is_in_it() {
    let mut story = story(1, 40);
    story.ask();
    // What the model said is never cut in a request for an answer; here it is.
    story.answer_blocks(vec![weir_types::Block::text("a".repeat(200_000))], Stop::Paused);
    story.ask();
    story.answer("more");
    story.session.activity.read = (0..50).map(|n| format!("{n}{}", "p".repeat(4_000))).collect();
    let plan = planned(&story).unwrap();
    let asked = tokens::of_request(&request(&story.session, "m", &plan));
    assert!(asked + plan.output_tokens_max <= 10_000, "{asked}");
}

#[test]
fn a_summary_must_say_something_and_be_short() {
    let cut = Cut { share_tokens: 100 };
    let plan = |tokens| Plan { from: Seq(1), through: Seq(2), tokens, cut, output_tokens_max: 100 };
    let check = |replaced: u64, summary: usize, expected: Option<&str>| {
        assert_eq!(flaw(&plan(replaced), &"s".repeat(summary * 4)), expected, "{summary} for {replaced}");
    };
    let too_long = Some("the summary is too long for what it replaces");
    assert_eq!(flaw(&plan(1_000), " \n"), Some("the summary is empty"));
    check(300, 150, None);
    check(300, 151, too_long);
    check(64, 63, None);
    check(64, 64, too_long);
    check(10_000, 200, None);
    check(10_000, 201, too_long);
}

#[test]
fn a_window_without_end_needs_no_summary() {
    let mut story = story(1, 40);
    story.agent.card.context_window = u64::MAX;
    assert_eq!(planned(&story), None);
    assert_eq!(window::select(&story.session, &story.agent).unwrap().dropped, 0);
}

#[test]
fn the_question_is_shorter_after_an_overflow() {
    let mut story = story(7, 4_000);
    story.ask();
    let Phase::Calling(request) = story.run().phase.clone() else { panic!() };
    story.fails(FailureClass::ContextOverflow);
    let plan = planned(&story).unwrap();
    let room = request.estimated_tokens / 2 - tokens::of_text(INSTRUCTIONS) - FRAME_TOKENS;
    assert_eq!(plan.cut, Cut { share_tokens: room / 6 });
}
