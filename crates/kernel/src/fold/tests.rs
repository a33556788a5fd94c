use serde_json::json;
use weir_events::*;
use weir_types::{
    Block, CallId, FailureClass, Hash, Json, NanoUsd, Outcome, Purpose, Role, RunId, Sent, SessionId, Stop,
    Usage, Verdict, View,
};

use super::*;
use crate::session::{Activity, Call, CallResult, CallState, StandingApproval};
use crate::story::{Story, asked, tool_use};

#[test]
fn a_session_has_its_title_and_labels() {
    let mut story = Story::new();
    let created = SessionCreated {
        agent: "a".into(),
        manifest: Hash::ZERO,
        principal: "user:eve".into(),
        groups: vec![],
        title: Some("first".into()),
        labels: [("team".into(), "blue".into()), ("tier".into(), "1".into())].into(),
        parent: None,
        lane: "direct".into(),
    };
    story.add(created.clone());
    story.add(SessionUpdated {
        title: None,
        labels: [("team".into(), "red".into()), ("tier".into(), String::new())].into(),
    });
    assert_eq!(story.session.title.as_deref(), Some("first"));
    assert_eq!(story.session.labels, [("team".to_owned(), "red".to_owned())].into());
    story.add(SessionUpdated { title: Some("second".into()), labels: Default::default() });
    assert_eq!(story.session.title.as_deref(), Some("second"));
    assert_eq!(story.session.created, Some(created));
}

#[test]
fn time_never_goes_back() {
    let mut story = Story::of_a_run();
    let (ts, spent) = (story.session.ts, story.run().spent);
    story.now -= 50_000;
    story.add(TextDelta { channel: "text".into(), block: 0, attempt: 1, offset: 0, delta: "x".into() });
    assert_eq!((story.session.ts, story.run().spent), (ts, spent));
}

#[test]
fn a_signal_reads_as_what_it_is() {
    let mut story = Story::new();
    story.add(ExternalSignal { name: "build \"x\"".into(), data: Json::parse(r#"{"ok":true}"#).unwrap() });
    let said = &story.session.inbox[0].content;
    assert_eq!(*said, [Block::text("<signal name=\"build \\\"x\\\"\">\n{\"ok\":true}\n</signal>")]);
}

#[test]
fn a_history_is_the_word_of_whoever_tells_it() {
    let mut story = Story::new();
    story.tell(Role::User, vec![Block::text("question")]);
    let thought = View::Thinking { text: "hm".into(), signature: Some("forged".into()) };
    let said = Block {
        view: View::Text { text: "answer".into() },
        sent: Some(Sent { wire: "x".into(), json: Json::null() }),
    };
    story.tell(Role::Assistant, vec![thought.into(), said, tool_use("t1", "write")]);
    let [Entry::User(_), Entry::Assistant(claimed)] = &story.session.transcript.entries[..] else { panic!() };
    // Only words are left of what the model is said to have said, and nobody takes them for its own.
    assert_eq!((&claimed.content[..], claimed.claimed), (&[Block::text("answer")][..], true));
    assert!(claimed.calls.is_empty() && claimed.wire_ids.is_empty());
    assert_eq!((story.session.totals, story.session.inbox.len()), (Spent::default(), 0));

    // It comes before everything else, or not at all.
    story.say("now");
    let before = story.session.clone();
    story.tell(Role::Assistant, vec![Block::text("late")]);
    assert_eq!(story.session.transcript, before.transcript);
    story.start_run();
    story.ask();
    story.answer("hi");
    let entries = story.session.transcript.entries.len();
    story.tell(Role::User, vec![Block::text("later")]);
    story.tell(Role::Assistant, vec![Block::text("later")]);
    assert_eq!((story.session.transcript.entries.len(), story.session.inbox.len()), (entries, 0));
    assert!(!story.session.transcript.last_assistant().unwrap().claimed);
}

#[test]
fn usage_and_cost_add_up_over_answers_failures_and_summaries() {
    let mut story = Story::of_a_run();
    story.ask();
    story.fails(FailureClass::Overloaded);
    story.ask();
    story.answer("hi");
    let last = story.session.transcript.entries[0].seq();
    story.summarised(last, "said hello");
    let input = story.run().spent.usage.input_tokens;
    let answered = input - 3 - 7;
    let expected = Spent {
        usage: Usage { input_tokens: input, output_tokens: 10, ..Usage::default() },
        reserved_tokens: 0,
        cost: NanoUsd(3 + 7 + (answered + 10) * 1_000),
        model_calls: 2,
        iterations: 1,
        micros: 6_000,
    };
    assert!(answered > 0);
    assert_eq!((story.run().spent, story.session.totals), (expected, expected));
}

#[test]
fn totals_outlive_the_run() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer("hi");
    let spent = story.run().spent;
    let run = story.run().id;
    let (usage, cost) = (spent.usage, spent.cost);
    story.add(RunFinished { stop: Stop::End, answer: Some("hi".into()), usage, cost });
    let how = Ending::Finished { stop: Stop::End, answer: Some("hi".into()) };
    let spent = Spent { micros: spent.micros + 1_000, ..spent };
    assert_eq!(story.session.ended, Some(Ended { run, how, spent }));
    story.say("more");
    story.start_run();
    assert_eq!((story.session.totals, story.run().spent), (spent, Spent::default()));
}

#[test]
fn a_request_whose_end_is_unknown_is_paid_in_full() {
    let interruptions: [fn(&mut Story); 5] = [
        |story| story.resumed(ResumeReason::Recovery),
        |story| story.forked(),
        |story| {
            story.add(RunCancelled { said: None });
        },
        |story| {
            story.add(RunParked { why: Parked::Halted });
        },
        |story| {
            let run = RunId::from_u128(9);
            story.add(RunStarted { run, trigger: Trigger::Input, lane: "direct".into() });
        },
    ];
    for interrupt in interruptions {
        let mut story = Story::of_a_run();
        story.ask();
        interrupt(&mut story);
        let totals = story.session.totals;
        assert_eq!(
            (totals.reserved_tokens, totals.cost, totals.usage),
            (1_100, NanoUsd(1_100_000), Usage::default())
        );
    }
    // Once, whatever follows.
    let mut story = Story::of_a_run();
    story.ask();
    story.resumed(ResumeReason::Recovery);
    assert_eq!(story.run().phase, Phase::Interrupted { purpose: Purpose::Turn, attempt: 1 });
    story.resumed(ResumeReason::Recovery);
    story.add(RunCancelled { said: None });
    assert_eq!(story.session.totals.reserved_tokens, 1_100);
}

#[test]
fn what_does_not_fit_changes_nothing_but_what_was_paid() {
    let mut story = Story::of_a_run();
    let before = story.run().clone();
    let (usage, cost) = (Usage { input_tokens: 5, ..Usage::default() }, NanoUsd(5));
    let (class, message) = (FailureClass::Auth, "late".to_owned());
    story.add(ModelFailed { class, attempt: 1, delay_ms: 0, message, usage, cost });
    assert_eq!((&story.run().phase, story.run().spent.cost), (&before.phase, cost));
    let transcript = story.session.transcript.clone();
    story.completed(CallId::from_u128(99), "whose?");
    story.granted(CallId::from_u128(99), Hash::ZERO, None);
    story.summarised(weir_types::Seq(99), "of what?");
    assert_eq!(story.session.transcript, transcript);
    assert_eq!(story.session.activity, Activity::default());
}

#[test]
fn a_summary_takes_the_place_of_what_it_covers_and_the_latest_message_stays() {
    let mut story = Story::of_a_run();
    story.use_tool("read", "one");
    story.use_tool("read", "two");
    let entries = story.session.transcript.entries.clone();
    let [Entry::User(said), Entry::Assistant(first), Entry::Assistant(second)] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    let seq = story.summarised(first.seq, "one was read");
    let transcript = &story.session.transcript;
    assert_eq!(transcript.summary, Some(Summary { seq, text: "one was read".into() }));
    assert_eq!(transcript.pinned.as_ref(), Some(said));
    assert_eq!(transcript.entries, [Entry::Assistant(second.clone())]);
    assert_eq!(transcript.last_user(), Some(said));

    // It stays when the next summary covers no newer one, and goes when there is one.
    story.use_tool("read", "three");
    story.summarised(second.seq, "two were read");
    assert_eq!(story.session.transcript.pinned.as_ref(), Some(said));
    story.say("and now?");
    story.use_tool("read", "four");
    let third = story.session.transcript.entries[0].seq();
    story.summarised(third, "three were read");
    assert_eq!(story.session.transcript.pinned, None);
    assert!(story.session.transcript.last_user().is_some_and(|entry| entry.seq != said.seq));
}

#[test]
fn ids_in_requests_are_unique_whatever_the_provider_sends() {
    let mut story = Story::of_a_run();
    story.ask();
    let first = story.answer_blocks(
        vec![tool_use("a", "read"), tool_use("a", "read"), tool_use("", "read")],
        Stop::ToolUse,
    );
    let ids = |story: &Story| story.session.transcript.last_assistant().unwrap().wire_ids.clone();
    assert_eq!(ids(&story), ["a".to_owned(), format!("call_{first}_1"), format!("call_{first}_2")]);
    let calls = story.take_up();
    let taken: Vec<String> = calls.iter().map(|call| story.call(*call).wire_id.clone()).collect();
    assert_eq!(taken, ids(&story));
    calls.into_iter().for_each(|call| story.completed(call, "x"));
    // Someone guesses what we would have called it.
    story.ask();
    let guess = format!("call_{}_1", story.session.seq.next());
    story.answer_blocks(vec![tool_use(&guess, "read"), tool_use("a", "read")], Stop::ToolUse);
    assert_eq!(ids(&story), [guess.clone(), format!("{guess}_")]);
}

#[test]
fn calls_are_taken_up_while_they_can_be_and_no_more_than_there_are() {
    let (mut story, [call]) = Story::of_calls(["read"]);
    let taken = story.session.calls().to_vec();
    let again = ToolRequested {
        call: CallId::from_u128(77),
        provider_id: "t9".into(),
        tool: "read".into(),
        source: "test".into(),
        input: Json::empty_object(),
        effect: weir_types::Effect::Read,
        risk: weir_types::Risk::Low,
        on_interrupt: weir_types::OnInterrupt::Report,
        key: None,
    };
    story.add(again.clone());
    assert_eq!(story.session.calls(), taken);
    let mut over = Story::of_a_run();
    over.ask();
    over.answer_with_calls(&["read"]);
    over.add(RunCancelled { said: None });
    over.add(again);
    assert_eq!(over.session.transcript.last_assistant().unwrap().calls, []);
    assert_eq!(taken[0].id, call);
}

#[test]
fn a_result_that_comes_too_late_does_not_change_what_the_model_was_told() {
    let (mut story, call) = Story::of_a_running_call("read");
    story.add(RunErrored { class: FailureClass::Invalid, message: "no agent".into() });
    let closed = CallState::Done(CallResult {
        content: vec![Block::text(INTERRUPTED)],
        failed: Some(Outcome::Interrupted),
    });
    assert_eq!(story.call(call).state, closed);
    story.completed(call, "42");
    story.decided(call, Verdict::Allow);
    story.started(call);
    assert_eq!(story.call(call).state, closed);
}

#[test]
fn a_call_keeps_its_child_and_its_stub() {
    let (mut story, [call]) = Story::of_calls(["child"]);
    story.add(ToolDecided {
        call,
        outcome: Verdict::Allow,
        rule: None,
        step: None,
        because: "so".into(),
        stub: true,
        saw: None,
    });
    story.started(call);
    story.add(ToolStarted { call, attempt: 2, key: "k".into(), input_hash: Hash::ZERO, child: None });
    let Call { child, stub, attempt, state, .. } = story.call(call);
    assert_eq!(
        (*child, *stub, *attempt, state),
        (Some(SessionId::from_u128(7)), true, 2, &CallState::Running)
    );
}

#[test]
fn a_message_never_comes_between_a_call_and_its_result() {
    let (mut story, call) = Story::of_a_running_call("read");
    story.say("hurry");
    story.completed(call, "42");
    story.ask();
    let kinds: Vec<bool> =
        story.session.transcript.entries.iter().map(|entry| entry.as_user().is_some()).collect();
    assert_eq!(kinds, [true, false, true]);
}

#[test]
fn activity_names_files_and_failures_once_newest_last_and_not_without_end() {
    let mut story = Story::of_a_run();
    story.add(FileWritten { path: "a".into(), hash: Hash::ZERO, mode: 0, size: 0 });
    story.add(FileWritten { path: "b".into(), hash: Hash::ZERO, mode: 0, size: 0 });
    story.add(FileDeleted { path: "a".into() });
    assert_eq!(story.session.activity.changed, ["b", "a"]);
    for n in 0..60 {
        story.add(FileWritten { path: format!("f{n}"), hash: Hash::ZERO, mode: 0, size: 0 });
    }
    let newest: Vec<String> = (10..60).map(|n| format!("f{n}")).collect();
    assert_eq!(story.session.activity.changed, newest);
    let endless = "p".repeat(10_000);
    story.add(FileWritten { path: endless, hash: Hash::ZERO, mode: 0, size: 0 });
    assert_eq!(story.session.activity.changed, newest);
}

#[test]
fn activity_names_what_was_read_and_what_failed() {
    let mut story = Story::of_a_run();
    story.ask();
    let input = Json::parse(r#"{"path":"src/lib.rs"}"#).unwrap();
    let read = weir_types::View::ToolUse { id: "r".into(), name: "fs_read".into(), input };
    story.answer_blocks(vec![read.into(), tool_use("w", "write"), tool_use("o", "fs_read")], Stop::ToolUse);
    let calls = story.take_up();
    story.completed(calls[0], "text");
    let message = format!("{}\nsecond line", "é".repeat(300));
    let (class, outcome) = ("x".into(), Outcome::Failed);
    story.add(ToolFailed { call: calls[1], class, message, outcome, log: vec![], bill: None });
    let (content, changed_files) = (vec![], vec!["out.txt".into()]);
    story.add(ToolCompleted {
        call: calls[2],
        content,
        changed_files,
        stub: false,
        whole: None,
        log: vec![],
        bill: None,
    });
    let expected = Activity {
        read: vec!["src/lib.rs".into()],
        changed: vec!["out.txt".into()],
        failures: vec![format!("write: {}", "é".repeat(200))],
    };
    assert_eq!(story.session.activity, expected);
}

#[test]
fn the_application_state_follows_its_patches() {
    let mut story = Story::new();
    let mut patch = |patch: serde_json::Value| {
        story.add(StatePatched { patch: Json::of(&patch) });
        story.session.app.clone()
    };
    assert_eq!(patch(json!([{"op": "add", "path": "", "value": {"n": 1}}])), json!({"n": 1}));
    // As a whole, or not at all.
    let half = json!([{"op": "replace", "path": "/n", "value": 2}, {"op": "remove", "path": "/missing"}]);
    assert_eq!(patch(half), json!({"n": 1}));
    assert_eq!(patch(json!({"not": "a patch"})), json!({"n": 1}));
    assert_eq!(patch(json!([{"op": "replace", "path": "/n", "value": 2}])), json!({"n": 2}));
}

#[test]
fn an_answer_teaches_how_the_provider_counts() {
    let mut story = Story::of_a_run();
    story.ask();
    let Phase::Calling(request) = story.run().phase.clone() else { panic!() };
    let usage = Usage { input_tokens: request.estimated_tokens * 2, ..Usage::default() };
    story.add(AssistantMessage {
        content: vec![],
        stop: Stop::End,
        usage,
        cost: NanoUsd(0),
        model: "m".into(),
        provider_id: None,
    });
    assert_eq!((story.session.gauge.corrected(100), story.session.gauge.estimated(100)), (200, 50));
}

#[test]
fn a_failed_attempt_may_be_repeated_after_its_delay() {
    let mut story = Story::of_a_run();
    story.ask();
    story.fails(FailureClass::RateLimited);
    let until = story.at().after_millis(5_000);
    let (purpose, class, message) = (Purpose::Turn, FailureClass::RateLimited, "no".to_owned());
    assert_eq!(story.run().phase, Phase::Failed { purpose, attempt: 1, class, message, until });
}

#[test]
fn only_an_answer_that_cannot_be_had_counts_as_an_overflow() {
    let overflow = |purpose: Purpose, class: FailureClass| {
        let mut story = Story::of_a_run();
        story.add(IterationStarted { n: 1 });
        story.requested(1, purpose);
        let Phase::Calling(request) = story.run().phase.clone() else { panic!() };
        story.fails(class);
        let Compaction { overflows, overflow_tokens, .. } = story.run().compaction;
        (overflows, overflow_tokens == request.estimated_tokens)
    };
    assert_eq!(overflow(Purpose::Turn, FailureClass::ContextOverflow), (1, true));
    assert_eq!(overflow(Purpose::Turn, FailureClass::Overloaded), (0, false));
    assert_eq!(overflow(Purpose::Summary, FailureClass::ContextOverflow), (0, false));
}

#[test]
fn a_child_is_paid_for_once() {
    let (mut story, call) = Story::of_a_running_call("child");
    let before = story.run().spent;
    let usage = Usage { input_tokens: 70, output_tokens: 7, ..Usage::default() };
    let bill = Some(Bill { usage, reserved_tokens: 5, cost: NanoUsd(11), model_calls: 2 });
    let done = ToolCompleted {
        call,
        content: vec![],
        changed_files: vec![],
        stub: false,
        whole: None,
        log: vec![],
        bill,
    };
    story.add(done.clone());
    let after = story.run().spent;
    assert_eq!(after.usage.input_tokens - before.usage.input_tokens, 70);
    assert_eq!((after.cost.0 - before.cost.0, after.model_calls - before.model_calls), (11, 2));
    assert_eq!(after.reserved_tokens - before.reserved_tokens, 5);
    assert_eq!(story.session.totals.cost, after.cost);
    // A result that comes a second time, whatever brought it, is not paid again.
    story.add(done);
    assert_eq!(story.run().spent.cost, after.cost);
}

#[test]
fn the_newest_long_results_can_be_read_on() {
    let mut story = Story::new();
    for n in 0..250_u32 {
        let (whole, log) = (Some(Hash::of(&n.to_be_bytes())), vec![]);
        let call = CallId::from_u128(u128::from(n));
        story.add(ToolCompleted {
            call,
            content: vec![],
            changed_files: vec![],
            stub: false,
            whole,
            log,
            bill: None,
        });
    }
    let kept = &story.session.long_results;
    assert_eq!((kept.len(), kept[0]), (200, Hash::of(&50_u32.to_be_bytes())));
}

/// Someone says yes to a call for the whole session.
fn granted_for_the_session(story: &mut Story, call: CallId) {
    let input_hash = story.call(call).input_hash();
    let by = "bob".into();
    story.add(ApprovalGranted {
        call,
        by,
        groups: vec![],
        input_hash,
        input: None,
        scope: Scope::Session,
        runs: None,
    });
}

#[test]
fn a_yes_for_the_session_is_kept_for_the_tool_and_the_rule() {
    let (mut story, [one, two]) = Story::of_calls(["write", "write"]);
    for call in [one, two] {
        story.ask_someone(call, None);
        granted_for_the_session(&mut story, call);
    }
    let standing = StandingApproval {
        tool: "write".into(),
        rule: "r".into(),
        by: "bob".into(),
        runs: None,
        granted: Some(Seq(13)),
    };
    assert_eq!(story.session.standing, [standing]);
    let mut forked = story.session.clone();
    let at =
        At { seq: forked.seq.next(), ts: story.at(), id: weir_types::EventId::from_u128(1), held_us: None };
    let fork = BranchForked { from: "main".parse().unwrap(), at: forked.seq, name: "b".parse().unwrap() };
    forked.apply_body(at, &fork.into());
    assert_eq!(forked.standing, []);
    story.add(SessionHalted { reason: "enough".into(), imported: false });
    assert_eq!(story.session.standing, []);
}

#[test]
fn a_yes_that_does_not_count_or_is_for_a_repetition_stands_for_nothing() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    story.add(ApprovalGranted {
        call,
        by: "bob".into(),
        groups: vec![],
        input_hash: Hash::ZERO,
        input: None,
        scope: Scope::Session,
        runs: None,
    });
    assert_eq!(story.session.standing, []);
    let (mut story, call) = Story::of_a_running_call("ask");
    story.resumed(ResumeReason::Recovery);
    let input_hash = story.call(call).input_hash();
    story.add(asked(call, input_hash, "on_interrupt: ask", None));
    granted_for_the_session(&mut story, call);
    assert!(matches!(story.call(call).state, CallState::Granted { .. }));
    assert_eq!(story.session.standing, []);
}

#[test]
fn who_said_yes_is_kept_once_it_was_taken_up() {
    let (mut story, [call]) = Story::of_calls(["put"]);
    story.ask_someone(call, None);
    let hash = story.call(call).input_hash();
    story.granted(call, hash, None);
    assert_eq!(story.call(call).approved_by, None);
    story.decided(call, Verdict::Allow);
    assert_eq!(story.call(call).approved_by.as_deref(), Some("bob"));
}

#[test]
fn nothing_lets_a_call_run_while_the_session_is_halted() {
    let (mut story, [asked, allowed]) = Story::of_calls(["write", "write"]);
    story.ask_someone(asked, None);
    let hash = story.call(asked).input_hash();
    story.add(SessionHalted { reason: "wait".into(), imported: false });
    let before: Vec<Call> = story.session.calls().to_vec();
    story.granted(asked, hash, None);
    story.decided(allowed, Verdict::Allow);
    story.started(allowed);
    assert_eq!(story.session.calls(), before);
}

#[test]
fn a_parked_run_has_nothing_open() {
    let (mut story, [granted, allowed]) = Story::of_calls(["write", "write"]);
    story.ask_someone(granted, None);
    let hash = story.call(granted).input_hash();
    story.granted(granted, hash, None);
    story.decided(allowed, Verdict::Allow);
    // We park no run like that; whoever makes up a history may.
    story.add(RunParked { why: Parked::Crashes { count: 3 } });
    story.decided(granted, Verdict::Allow);
    story.resumed(ResumeReason::Asked);
    let closed = |call: &Call| matches!(&call.state, CallState::Done(result) if result.failed == Some(Outcome::Interrupted));
    assert!([granted, allowed].iter().all(|call| closed(story.call(*call))));
    assert!(matches!(story.next(), crate::Next::CallModel { .. }));
}

#[test]
fn a_yes_in_the_name_of_someone_else_is_none_and_is_told() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    let input_hash = story.call(call).input_hash();
    let granted = ApprovalGranted {
        call,
        by: "bob".into(),
        groups: vec![],
        input_hash,
        input: None,
        scope: Scope::Once,
        runs: None,
    };
    let event = |actor: Option<&str>, session: &Session| {
        let about = About { actor: actor.map(str::to_owned), ..About::default() };
        let body = Body::from(granted.clone());
        let payload = body.encode().unwrap();
        Event {
            position: weir_types::Position(1),
            stream: "session:1".parse().unwrap(),
            branch: "main".parse().unwrap(),
            seq: session.seq.next(),
            id: EventId::from_u128(1),
            ts: session.ts,
            kind: body.kind_str().parse().unwrap(),
            payload_hash: Hash::of(&payload),
            payload: payload.into(),
            meta: about.encode().unwrap(),
            refs: vec![],
            chain: Hash::ZERO,
        }
    };
    for (actor, word) in [(Some("eve"), "eve"), (None, "nobody")] {
        let mut session = story.session.clone();
        session.apply(&event(actor, &story.session)).unwrap();
        let found = session.call(call).unwrap();
        assert!(matches!(found.state, CallState::Awaiting { .. }), "{actor:?}");
        assert_eq!(found.because, format!("a yes of `bob` came from `{word}` and does not count"));
        assert_eq!(session.seq, story.session.seq.next());
    }
    let mut session = story.session.clone();
    session.apply(&event(Some("bob"), &story.session)).unwrap();
    assert!(matches!(session.call(call).unwrap().state, CallState::Granted { .. }));
}

#[test]
fn a_group_that_a_call_was_escalated_to_is_remembered_with_the_yes() {
    let escalated = |after_ms: u64| {
        let (mut story, [call]) = Story::of_calls(["write"]);
        let hash = story.call(call).input_hash();
        let at = story.at().after_millis(10);
        let escalates = Some(Escalates { to: "group:boss".into(), at });
        story.add(ApprovalRequested { escalates, ..asked(call, hash, "r", None) });
        story.now += i64::try_from(after_ms).unwrap() * 1_000;
        story.granted(call, hash, None);
        story.call(call).escalated_to.clone()
    };
    assert_eq!(escalated(1), None);
    assert_eq!(escalated(50).as_deref(), Some("group:boss"));
}
