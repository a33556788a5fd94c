use futures_util::FutureExt;
use futures_util::stream::StreamExt;
use weir_types::{Message, Purpose, Role};

use super::*;
use crate::{Channel, Delta};

fn user(text: &str) -> Message {
    Message { role: Role::User, content: vec![Block::text(text), Block::text("<runtime>monday</runtime>")] }
}

fn called(name: &str) -> Message {
    let call = View::ToolUse { id: "t1".into(), name: name.into(), input: Json::empty_object() };
    Message { role: Role::Assistant, content: vec![call.into()] }
}

fn result(name: &str, text: &str, failed: bool) -> Block {
    View::ToolResult { id: "t1".into(), name: name.into(), content: vec![Block::text(text)], failed }.into()
}

fn results(results: Vec<Block>) -> Message {
    Message { role: Role::User, content: results }
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "demo".into(),
        system: String::new(),
        tools: vec![],
        messages,
        output_tokens_max: 100,
        purpose: Purpose::Turn,
    }
}

/// All pieces, none of which has to be waited for.
fn pieces(replies: Vec<Reply>, request: &Request, attempt: u32) -> Vec<Result<Piece, ModelError>> {
    let model = Scripted::new(Script { replies }).unwrap();
    let body = model.encode(request).unwrap();
    model
        .stream(body, attempt)
        .collect::<Vec<_>>()
        .now_or_never()
        .expect("a script without delays never waits")
}

/// The answer's blocks, or the error's class and message.
fn answer(replies: Vec<Reply>, request: &Request) -> Result<Vec<View>, String> {
    match pieces(replies, request, 1).pop().unwrap() {
        Ok(Piece::Done(answer)) => Ok(answer.content.into_iter().map(|block| block.view).collect()),
        Ok(Piece::Delta(delta)) => panic!("ends with {delta:?}"),
        Err(error) => Err(format!("{}: {}", error.class, error.message)),
    }
}

fn says(text: &str) -> Result<Vec<View>, String> {
    Ok(vec![View::Text { text: text.into() }])
}

fn say(when: Option<When>, text: &str) -> Reply {
    Reply { when, say: Some(text.into()), ..Reply::default() }
}

fn on_user(pattern: &str) -> Option<When> {
    Some(When { user: Some(pattern.into()), ..When::default() })
}

fn on_tool(tool: &str, failed: Option<bool>) -> Option<When> {
    Some(When { tool: Some(tool.into()), failed, ..When::default() })
}

#[test]
fn the_first_rule_that_matches_answers() {
    let script = || {
        vec![
            say(on_user(r"(?i)weather in (?P<city>\w+)(!)?"), "{{1}} {{city}} [{{2}}] {{user}} {{attempt}}"),
            say(on_tool("lookup", Some(true)), "failed: {{result}}"),
            say(on_tool("lookup", None), "{{result.temp}} {{result.days.1}} {{result}}"),
            say(None, "what? {{result}} {{nothing}} {{"),
        ]
    };
    let check = |messages: Vec<Message>, expected: &str| {
        assert_eq!(answer(script(), &request(messages)), says(expected));
    };
    let asked = || vec![user("Weather in Oslo?"), called("lookup")];
    let with = |last: Vec<Block>| asked().into_iter().chain([results(last)]).collect::<Vec<_>>();
    check(vec![user("Weather in Oslo?")], "Oslo Oslo [] Weather in Oslo? 1");
    check(
        with(vec![result("lookup", r#"{"temp":21.50,"days":["a","b"]}"#, false)]),
        r#"21.50 b {"temp":21.50,"days":["a","b"]}"#,
    );
    check(with(vec![result("lookup", "no network", true)]), "failed: no network");
    check(with(vec![result("lookup", "hot", false)]), "{{result.temp}} {{result.days.1}} hot");
    check(
        with(vec![result("other", "1", false), result("lookup", r#"{"temp":2}"#, false)]),
        r#"2 {{result.days.1}} {"temp":2}"#,
    );
    let content = vec![Block::text("(changed)"), Block::text(r#"{"temp":3,"days":[]}"#)];
    let changed = View::ToolResult { id: "t1".into(), name: "lookup".into(), content, failed: false };
    check(with(vec![changed.into()]), "3 {{result.days.1}} (changed)\n{\"temp\":3,\"days\":[]}");
    check(with(vec![result("other", "x", false)]), "what? x {{nothing}} {{");
    // Words beside a result are newer than it.
    check(
        with(vec![result("lookup", "hot", false), Block::text("and the weather in Rome!")]),
        "Rome Rome [!] and the weather in Rome! 1",
    );
}

#[test]
fn a_tool_rule_can_look_at_what_was_asked() {
    let when = When { user: Some("(o+)".into()), tool: Some("f".into()), ..When::default() };
    let script = vec![say(Some(when), "{{1}}{{result}}")];
    let messages = vec![user("foo"), called("f"), results(vec![result("f", "7", false)])];
    assert_eq!(answer(script, &request(messages)), says("oo7"));
}

#[test]
fn a_summary_is_for_rules_that_say_so() {
    let script = || {
        vec![
            say(on_user("hi"), "hello"),
            say(Some(When { summarize: true, ..When::default() }), "we said hi"),
        ]
    };
    let turn = request(vec![user("hi")]);
    let summary = Request { purpose: Purpose::Summary, ..turn.clone() };
    assert_eq!(answer(script(), &turn), says("hello"));
    assert_eq!(answer(script(), &summary), says("we said hi"));
    assert_eq!(answer(vec![say(None, "anything")], &summary), says("anything"));
    let none = answer(vec![say(on_user("hi"), "hello")], &summary);
    assert_eq!(none, Err("invalid: script has no reply for a summary".into()));
}

#[test]
fn no_rule_is_an_error_with_a_short_quote() {
    let refused = |messages: Vec<Message>| answer(vec![], &request(messages)).unwrap_err();
    assert_eq!(refused(vec![user("hi")]), "invalid: script has no reply for `hi`");
    assert_eq!(
        refused(vec![user(&"ü".repeat(61))]),
        format!("invalid: script has no reply for `{}…`", "ü".repeat(60))
    );
    let failed = vec![user("hi"), called("f"), results(vec![result("f", "boom", true)])];
    assert_eq!(refused(failed), "invalid: script has no reply for the failed result of `f`: `boom`");
}

#[test]
fn calls_are_parallel_and_keep_their_arguments_spelling() {
    let call = |tool: &str, input: &str| Call { tool: tool.into(), input: Json::parse(input).unwrap() };
    let reply = Reply {
        when: on_user(r"(\w+) (\d)"),
        think: Some("hm {{2}}".into()),
        call: vec![
            call("a", r#"{"z":"{{1}}!","a":[1.50,"{{2}}",{"n":null}]}"#),
            call("b", r#"{"whole":"{{attempt}}"}"#),
        ],
        ..Reply::default()
    };
    let expected = |id: &str, name: &str, input: &str| View::ToolUse {
        id: id.into(),
        name: name.into(),
        input: Json::parse(input).unwrap(),
    };
    let expected = vec![
        View::Thinking { text: "hm 3".into(), signature: None },
        expected("call_1_0", "a", r#"{"z":"day!","a":[1.50,"3",{"n":null}]}"#),
        expected("call_1_1", "b", r#"{"whole":1}"#),
    ];
    let played = pieces(vec![reply], &request(vec![user("day 3")]), 1).pop().unwrap().unwrap();
    let Piece::Done(answer) = played else { panic!("{played:?}") };
    assert_eq!(answer.stop, Stop::ToolUse);
    assert_eq!(answer.content.into_iter().map(|block| block.view).collect::<Vec<_>>(), expected);
}

#[test]
fn deltas_join_to_the_answer_and_never_split_a_character() {
    let usage = Usage { input_tokens: 1200, output_tokens: 80, ..Usage::default() };
    let reply = Reply {
        think: Some("é🙂".into()),
        say: Some("grün".into()),
        chunk: Some(3),
        usage: Some(usage),
        stop: Some(Stop::MaxTokens),
        ..Reply::default()
    };
    let played: Vec<Piece> =
        pieces(vec![reply], &request(vec![user("x")]), 1).into_iter().map(Result::unwrap).collect();
    let delta = |channel, block, text: &str| Piece::Delta(Delta { channel, block, text: text.into() });
    let content = vec![
        View::Thinking { text: "é🙂".into(), signature: None }.into(),
        View::Text { text: "grün".into() }.into(),
    ];
    let done = Answer { content, stop: Stop::MaxTokens, usage, provider_id: None };
    let expected = vec![
        delta(Channel::Thinking, 0, "é🙂"),
        delta(Channel::Text, 1, "grü"),
        delta(Channel::Text, 1, "n"),
        Piece::Done(Box::new(done)),
    ];
    assert_eq!(played, expected);
}

#[test]
fn without_usage_four_characters_are_a_token() {
    let request = request(vec![user("é")]);
    let body = serde_json::to_string(&request).unwrap();
    let played = pieces(vec![say(None, "twelve chars")], &request, 1).pop().unwrap().unwrap();
    let Piece::Done(answer) = played else { panic!("{played:?}") };
    let sent = u64::try_from(body.chars().count().div_ceil(4)).unwrap();
    assert_eq!(answer.usage, Usage { input_tokens: sent, output_tokens: 3, ..Usage::default() });
}

#[test]
fn failures_can_end_after_some_attempts() {
    let fail = Reply {
        say: Some("half".into()),
        error: Some(FailureClass::Overloaded),
        times: Some(2),
        ..Reply::default()
    };
    let request = request(vec![user("x")]);
    let script = vec![fail, say(None, "attempt {{attempt}}")];
    let failed = vec![
        Ok(Piece::Delta(Delta { channel: Channel::Text, block: 0, text: "half".into() })),
        Err(ModelError::new(FailureClass::Overloaded, "the script fails here: overloaded")),
    ];
    assert_eq!(pieces(script.clone(), &request, 1), failed);
    assert_eq!(pieces(script.clone(), &request, 2), failed);
    let third = pieces(script, &request, 3);
    assert_eq!(
        third[0],
        Ok(Piece::Delta(Delta { channel: Channel::Text, block: 0, text: "attempt 3".into() }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_delay_comes_before_each_delta() {
    let reply = Reply {
        say: Some("abcd".into()),
        chunk: Some(2),
        delay: Some(Duration::from_millis(50)),
        ..Reply::default()
    };
    let model = Scripted::new(Script { replies: vec![reply] }).unwrap();
    let body = model.encode(&request(vec![user("x")])).unwrap();
    let start = tokio::time::Instant::now();
    let times: Vec<u128> = model.stream(body, 1).map(|_| start.elapsed().as_millis()).collect().await;
    assert_eq!(times, [50, 100, 100]);
}

#[test]
fn a_bad_pattern_names_its_rule() {
    let replies = vec![say(None, "x"), say(on_user("(oops"), "y")];
    let error = Scripted::new(Script { replies }).unwrap_err();
    assert_eq!(error.to_string(), "reply 2 of the script: `(oops` is not a regular expression");
    assert_eq!((error.index, error.code()), (1, "models::script-pattern"));
}
