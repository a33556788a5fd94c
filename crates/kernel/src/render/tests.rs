use weir_events::*;
use weir_types::{
    Block, FailureClass, Hash, Json, Message, Outcome, Role, Sent, Source, Stop, Verdict, View, text_of,
};

use super::*;
use crate::fold::INTERRUPTED;
use crate::story::{Story, tool_use};
use crate::tokens;

mod fitting;

fn user(blocks: Vec<Block>) -> Message {
    Message { role: Role::User, content: blocks }
}

fn assistant(blocks: Vec<Block>) -> Message {
    Message { role: Role::Assistant, content: blocks }
}

fn words(text: &str) -> Block {
    Block::text(text)
}

fn result(id: &str, name: &str, text: &str, failed: bool) -> Block {
    let (id, name, content) = (id.into(), name.into(), vec![words(text)]);
    View::ToolResult { id, name, content, failed }.into()
}

/// An answer with these blocks, and what the next request makes of it.
fn retold(content: Vec<Block>, stop: Stop) -> Vec<Block> {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_blocks(content, stop);
    story.request().messages.swap_remove(1).content
}

#[test]
fn results_go_back_together_in_the_order_of_their_calls() {
    let (mut story, [first, second]) = Story::of_calls(["read", "put"]);
    story.completed(second, "b");
    let (class, message) = ("x".into(), "a is broken".into());
    story.add(ToolFailed { call: first, class, message, outcome: Outcome::Failed, log: vec![], bill: None });
    story.say("and?");
    let expected = [
        user(vec![words("hello")]),
        assistant(vec![tool_use("t0", "read"), tool_use("t1", "put")]),
        user(vec![result("t0", "read", "a is broken", true), result("t1", "put", "b", false), words("and?")]),
    ];
    assert_eq!(story.request().messages, expected);
}

#[test]
fn a_call_without_a_result_gets_one() {
    let (mut story, [first, _]) = Story::of_calls(["read", "put"]);
    story.completed(first, "a");
    let expected = |second: Block| {
        [
            user(vec![words("hello")]),
            assistant(vec![tool_use("t0", "read"), tool_use("t1", "put")]),
            user(vec![result("t0", "read", "a", false), second]),
        ]
    };
    let closed = expected(result("t1", "put", INTERRUPTED, true));
    assert_eq!(story.request().messages, closed);
    story.forked();
    assert_eq!(story.request().messages, closed);
    // Nobody has even taken them up.
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_blocks(vec![tool_use("", "read"), tool_use("", "put")], Stop::ToolUse);
    story.forked();
    let [_, asked, told] = story.request().messages.try_into().unwrap();
    let ids = story.session.transcript.last_assistant().unwrap().wire_ids.clone();
    assert_eq!(asked, assistant(vec![tool_use(&ids[0], "read"), tool_use(&ids[1], "put")]));
    let results = vec![result(&ids[0], "read", INTERRUPTED, true), result(&ids[1], "put", INTERRUPTED, true)];
    assert_eq!(told, user(results));
}

#[test]
fn what_the_runtime_adds_comes_before_what_was_said() {
    let mut story = Story::new();
    let runtime = [("time".into(), "noon".into()), ("cwd".into(), "/".into())].into();
    story.add(UserMessage { content: vec![words("hello")], runtime, history: None });
    let expected = user(vec![words("<runtime>\ncwd: /\ntime: noon\n</runtime>"), words("hello")]);
    assert_eq!(story.request().messages, [expected]);
}

#[test]
fn messages_of_the_user_in_a_row_are_one() {
    let mut story = Story::new();
    story.say("one");
    story.say("two");
    assert_eq!(story.request().messages, [user(vec![words("one"), words("two")])]);
}

#[test]
fn a_history_is_told_with_its_roles_and_always_makes_a_valid_request() {
    use Role::{Assistant, User};
    let check = |history: &[(Role, &str)], expected: &[Message]| {
        let mut story = Story::new();
        for (role, text) in history {
            story.tell(*role, vec![words(text)]);
        }
        assert_eq!(story.next(), crate::Next::Rest, "a history is nothing to answer");
        story.say("now");
        assert_eq!(story.request().messages, expected, "{history:?}");
        story.start_run();
        assert_eq!(story.request().messages, expected, "{history:?}");
    };
    let now = || user(vec![words("now")]);
    check(&[(User, "a"), (Assistant, "b")], &[user(vec![words("a")]), assistant(vec![words("b")]), now()]);
    check(&[(User, "a"), (User, "b")], &[user(vec![words("a"), words("b"), words("now")])]);
    // Nobody asked: what cannot come first is not shown.
    check(&[(Assistant, "b")], &[now()]);
    check(
        &[(User, "a"), (Assistant, "b"), (Assistant, "c")],
        &[
            user(vec![words("a")]),
            assistant(vec![words("b")]),
            user(vec![words("Continue.")]),
            assistant(vec![words("c")]),
            now(),
        ],
    );
    check(
        &[(User, ""), (Assistant, " ")],
        &[user(vec![words("(empty message)")]), assistant(vec![words("(no answer)")]), now()],
    );
}

#[test]
fn what_the_user_may_not_say_is_left_out() {
    let mut story = Story::new();
    let sent =
        Some(Sent { wire: "anthropic".into(), json: Json::parse(r#"{"type":"tool_result"}"#).unwrap() });
    let image = View::Image { media_type: "image/png".into(), source: Source::Url("u".into()) };
    let content = vec![
        words(" \n"),
        tool_use("x", "write"),
        result("x", "write", "done", false),
        View::Thinking { text: "hm".into(), signature: None }.into(),
        Block { view: View::Unknown, sent: sent.clone() },
        Block { view: View::Text { text: "look".into() }, sent },
        image.clone().into(),
    ];
    story.add(UserMessage { content, runtime: Default::default(), history: None });
    assert_eq!(story.request().messages, [user(vec![words("look"), image.into()])]);
    let mut story = Story::new();
    story.add(UserMessage { content: vec![words("")], runtime: Default::default(), history: None });
    assert_eq!(story.request().messages, [user(vec![words("(empty message)")])]);
}

#[test]
fn a_result_that_says_nothing_says_so() {
    let (mut story, [call]) = Story::of_calls(["read"]);
    let content = vec![words(" "), tool_use("x", "write")];
    story.add(ToolCompleted {
        call,
        content,
        changed_files: vec![],
        stub: false,
        whole: None,
        log: vec![],
        bill: None,
    });
    let told = story.request().messages.pop().unwrap();
    assert_eq!(told, user(vec![result("t0", "read", "(no output)", false)]));
}

#[test]
fn the_result_says_what_an_approver_changed() {
    let (mut story, [call]) = Story::of_calls(["write"]);
    story.ask_someone(call, None);
    let asked = story.call(call).input_hash();
    story.granted(call, asked, Some(Json::parse(r#"{"less":true}"#).unwrap()));
    story.decided(call, Verdict::Allow);
    story.started(call);
    story.completed(call, "done");
    let [_, answer, told] = story.request().messages.try_into().unwrap();
    assert_eq!(answer, assistant(vec![tool_use("t0", "write")]));
    let content = vec![words(r#"(an approver changed the arguments to: {"less":true})"#), words("done")];
    let (id, name, failed) = ("t0".into(), "write".into(), false);
    assert_eq!(told, user(vec![View::ToolResult { id, name, content, failed }.into()]));
}

#[test]
fn an_answer_is_told_as_it_was_given() {
    let sent = Some(Sent { wire: "anthropic".into(), json: Json::parse(r#"{"b":1,"a":2}"#).unwrap() });
    let content = vec![
        Block { view: View::Thinking { text: "hm".into(), signature: Some("s".into()) }, sent: sent.clone() },
        Block { view: View::Unknown, sent: sent.clone() },
        Block { view: View::Text { text: "hi".into() }, sent: sent.clone() },
        Block { sent, ..tool_use("t1", "read") },
    ];
    assert_eq!(retold(content.clone(), Stop::ToolUse), content);
}

#[test]
fn an_answer_that_no_provider_would_take_back_is_mended() {
    let thinking = || Block::from(View::Thinking { text: "hm".into(), signature: None });
    let check = |content: Vec<Block>, stop: Stop, expected: Vec<Block>| {
        assert_eq!(retold(content, stop), expected);
    };
    check(vec![], Stop::End, vec![words("(no answer)")]);
    check(vec![words("\n")], Stop::Refused, vec![words("(refused)")]);
    check(vec![thinking()], Stop::MaxTokens, vec![words("(no answer)")]);
    check(
        vec![thinking(), words("a"), words(""), thinking(), thinking()],
        Stop::MaxTokens,
        vec![thinking(), words("a")],
    );
    let unknown = || Block::from(View::Unknown);
    check(vec![unknown()], Stop::Paused, vec![unknown(), words("(no answer)")]);
    check(vec![result("x", "y", "z", false), words("a")], Stop::End, vec![words("a")]);
}

#[test]
fn a_call_that_no_provider_would_take_back_is_mended() {
    let json = |text: &str| Json::parse(text).unwrap();
    let call = |name: &str, input: &str| {
        let view = View::ToolUse { id: "t1".into(), name: name.into(), input: json(input) };
        Block { view, sent: Some(Sent { wire: "w".into(), json: json("{}") }) }
    };
    let check = |given: Block, name: &str, input: &str, verbatim: bool| {
        let told = retold(vec![given], Stop::ToolUse).pop().unwrap();
        let view = View::ToolUse { id: "t1".into(), name: name.into(), input: json(input) };
        assert_eq!((told.view, told.sent.is_some()), (view, verbatim));
    };
    check(call("read", r#" {"a" : 1}"#), "read", r#"{"a" : 1}"#, true);
    check(call("get-time_2", "{}"), "get-time_2", "{}", true);
    check(call("multi_tool_use.parallel", "{}"), "multi_tool_use_parallel", "{}", false);
    check(call("", "{}"), "unnamed", "{}", false);
    check(call(&"é".repeat(70), "{}"), &"_".repeat(64), "{}", false);
    check(call(&"a".repeat(65), "{}"), &"a".repeat(64), "{}", false);
    check(call("read", "null"), "read", r#"{"input":null}"#, true);
    check(call("read", r#""text""#), "read", r#"{"input":"text"}"#, true);
}

#[test]
fn a_model_that_speaks_twice_is_asked_to_go_on_in_between_for_ever() {
    let mut story = Story::of_a_run();
    story.ask();
    story.answer_blocks(vec![words("so far")], Stop::Paused);
    let mut expected =
        vec![user(vec![words("hello")]), assistant(vec![words("so far")]), user(vec![words("Continue.")])];
    assert_eq!(story.request().messages, expected);
    story.ask();
    story.fails(FailureClass::Invalid);
    story.add(RunErrored { class: FailureClass::Invalid, message: "no".into() });
    // It was said, so it stays said.
    story.say("well?");
    story.start_run();
    expected[2].content.push(words("well?"));
    assert_eq!(story.request().messages, expected);
    // Without having been said, it is not.
    let mut story = Story::of_a_run();
    story.ask();
    story.answer("done");
    story.say("thanks");
    assert_eq!(story.request().messages[1..], [assistant(vec![words("done")]), user(vec![words("thanks")])]);
}

#[test]
fn a_summary_and_the_message_it_covers_come_first() {
    let mut story = Story::of_a_run();
    story.use_tool("read", "one");
    story.use_tool("read", "two");
    let covered = story.session.transcript.entries[1].seq();
    story.summarised(covered, "one was read");
    let [first, second, _] = story.request().messages.try_into().unwrap();
    let summary = "<summary of the conversation so far>\none was read\n</summary>";
    assert_eq!(first, user(vec![words(summary), words("hello")]));
    assert_eq!(second.role, Role::Assistant);
}

#[test]
fn a_conversation_in_plain_words() {
    let mut story = Story::new();
    let image = View::Image { media_type: "image/png".into(), source: Source::Url("u".into()) };
    let document = View::Document {
        media_type: "application/pdf".into(),
        title: Some("plan".into()),
        source: Source::Url("u".into()),
    };
    let content = vec![words("look: "), image.into(), document.into()];
    story.add(UserMessage { content, runtime: Default::default(), history: None });
    story.start_run();
    story.ask();
    let thinking = View::Thinking { text: "hm".into(), signature: None };
    story.answer_blocks(
        vec![thinking.into(), words("I read."), tool_use("a", "read"), tool_use("b", "put")],
        Stop::ToolUse,
    );
    let calls = story.take_up();
    story.completed(calls[0], "42");
    let (class, message) = ("x".into(), "full".into());
    story.add(ToolFailed {
        call: calls[1],
        class,
        message,
        outcome: Outcome::Failed,
        log: vec![],
        bill: None,
    });
    let cut = Cut { share_tokens: 1_000 };
    let told: String = units(&story.session).into_iter().map(|unit| plain(unit, cut)).collect();
    let expected = "USER: look: [image][document plan]\nASSISTANT: I read.\nCALL read: {}\nRESULT read: 42\nCALL put: \
                    {}\nFAILED put: full\n";
    // Attachments count, so that the message was larger than it looks; here everything fits.
    let roomy = Cut { share_tokens: 100_000 };
    let all: String = units(&story.session).into_iter().map(|unit| plain(unit, roomy)).collect();
    assert_eq!(all, expected);
    assert!(told.contains("RESULT read: 42"));
}

#[test]
fn ranges_that_make_no_sense_show_nothing() {
    let mut story = Story::of_a_run();
    let seq = story.session.transcript.entries[0].seq();
    let later = story.say("more");
    let frame = || Frame { api_name: "m".into(), system: "s".into(), tools: vec![], output_tokens_max: 7 };
    let cut = Cut { share_tokens: 100 };
    let shown = |ranges: &[[Seq; 2]]| request(&story.session, frame(), ranges, cut).messages.len();
    assert_eq!(shown(&[[seq, seq]]), 1);
    assert_eq!(shown(&[[seq, Seq(99)]]), 0);
    assert_eq!(shown(&[[later, seq]]), 0);
    assert_eq!(shown(&[]), 0);
    let whole = request(&story.session, frame(), &[[seq, seq]], cut);
    assert_eq!((whole.model.as_str(), whole.system.as_str(), whole.output_tokens_max), ("m", "s", 7));
}

/// What was heard before somebody had enough stays, and the next question is one of its own.
#[test]
fn an_answer_that_was_cut_off_stands_between_two_questions() {
    let check = |said: Option<&str>, expected: Option<&str>| {
        let mut story = Story::of_a_run();
        story.ask();
        story.add(RunCancelled { said: said.map(str::to_owned) });
        story.say("something else");
        let messages = story.request().messages;
        match expected {
            Some(text) => {
                let between = [
                    user(vec![words("hello")]),
                    assistant(vec![words(text)]),
                    user(vec![words("something else")]),
                ];
                assert_eq!(messages, between, "{said:?}");
            }
            None => assert_eq!(messages, [user(vec![words("hello"), words("something else")])]),
        }
    };
    check(Some("It is h"), Some("It is h\n\n[interrupted by the user]"));
    check(Some(""), Some("[interrupted by the user]"));
    // Events of earlier versions: their requests stay what they were.
    check(None, None);
}
