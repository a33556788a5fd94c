//! The one pipeline: what it refuses and in which words, what only pretends, how long a call may take, how long a result
//! may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::json;
use weir_journal::{mint_call, mint_session};
use weir_tools::{
    Asked, Builtin, DEPTH_MAX, Decision, Edit, Failed, FileInfo, Files, FilesError, Gate, Kind, Level, Live,
    Offer, Permit, Request, Toolbox,
};
use weir_types::{Effect, Hash, Json, Outcome, Risk, Saw, Verdict};

use crate::grants::Grants;
use crate::support::{Answer, DEADLINE, Session, agent, builtin, failure, remote};

const MAIL: &str = "mcp://mail.example.com";

/// Ada owns the place. Grace may read mail and, being in the group, talk to the writer. Eve may do nothing.
fn grants() -> Grants {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    Grants {
        admins: names(&["user:ada"]),
        groups: BTreeMap::from([("group:engineers".to_owned(), names(&["user:grace"]))]),
        grants: BTreeMap::from([
            (MAIL.to_owned(), BTreeMap::from([("group:engineers".to_owned(), Level::Read)])),
            ("http".to_owned(), BTreeMap::from([("user:grace".to_owned(), Level::Write)])),
        ]),
        acl: BTreeMap::from([("writer".to_owned(), names(&["group:engineers"]))]),
    }
}

fn offers() -> Vec<Offer> {
    vec![
        remote("send", Effect::Write),
        remote("look", Effect::Read),
        agent("writer"),
        agent("boss"),
        builtin(Builtin::EditWrite),
        // As a build has it: what its entry offers is a read, whatever a model asks for.
        Offer { access: Level::Read, effect: Effect::Read, ..builtin(Builtin::Http) },
    ]
}

fn toolbox(session: &Session, live: Live) -> Toolbox {
    session.toolbox(grants(), live, offers())
}

fn ask(toolbox: &Toolbox, principal: &str, tool: &str, input: &str, depth: u32) -> Decision {
    let input = Json::parse(input).unwrap();
    let (call, session) = (mint_call(), mint_session());
    let asked = Asked {
        call,
        tool,
        input: &input,
        session,
        depth,
        agent: "helper",
        principal,
        groups: &[],
        approved_by: None,
    };
    toolbox.authorize(&asked)
}

const TO: &str = r#"{"to":"bob"}"#;
const POST: &str = r#"{"method":"POST","url":"https://example.com/"}"#;

/// Every refusal says which step refused, why, and what would allow it.
#[test]
fn refusals_name_the_step_the_reason_and_the_remedy() {
    let toolbox = toolbox(&Session::new(), Live::Everything);
    let check = |(principal, tool, input, depth): (&str, &str, &str, u32), rule: &str, because: &str| {
        let decision = ask(&toolbox, principal, tool, input, depth);
        // What it saw is another test's.
        let said = (decision.verdict, decision.rule.as_deref(), decision.because.as_str());
        assert_eq!(said, (Verdict::Deny, Some(rule), because), "{principal} {tool} {input}");
        assert_eq!(decision.step.map(weir_types::GateStep::as_str), Some(rule), "{principal} {tool} {input}");
        let remedy = decision.remedy.unwrap();
        assert_eq!(format!("{rule}: {}; {remedy}", decision.reason), because);
    };
    check(
        ("user:ada", "rm", "{}", 0),
        "allowlist",
        "allowlist: agent `helper` does not list it (it lists: boss, edit_write, http, look, send, writer); an entry under `tools` in \
         the agent's spec would allow it",
    );
    check(
        ("user:ada", "send", "{}", 0),
        "schema",
        "schema: the arguments do not fit: \"to\" is a required property; call it again with arguments that fit its schema",
    );
    // The rules would look at one of them, and a server at the other.
    check(
        ("user:ada", "send", r#"{"to":"eve","to":"bob"}"#, 0),
        "schema",
        "schema: the arguments have the key `to` twice, and not everybody reads the same one; call it again with each key once",
    );
    check(
        ("user:eve", "look", TO, 0),
        "grant",
        "grant: `user:eve` holds no grant on `mcp://mail.example.com`, and the call needs `read`; a `tool_grants` entry for \
         `mcp://mail.example.com` with `access: read` in weir.yaml would allow it",
    );
    check(
        ("user:grace", "send", TO, 0),
        "grant",
        "grant: `user:grace` holds only `read` on `mcp://mail.example.com`, and the call needs `write`; a `tool_grants` entry for \
         `mcp://mail.example.com` with `access: write` in weir.yaml would allow it",
    );
    for principal in ["user:grace", "user:ada"] {
        check(
            (principal, "http", POST, 0),
            "grant",
            "grant: this call needs `access: write`, and the agent's entry `http` offers `read`; `access: write` in the agent's spec \
             would allow it",
        );
    }
    check(
        ("user:grace", "boss", TO, 0),
        "grant",
        "grant: `user:grace` may not talk to agent `boss`; an `acl` entry with role `execute` in agents/boss/spec.yaml would allow it",
    );
    check(
        ("user:grace", "writer", TO, DEPTH_MAX),
        "budget",
        "budget: `writer` would be 9 agents deep, and 8 is the most; answer with what you have",
    );
}

/// What a decision depended on beside the call is told with it, whichever step decided, so that it can be made again.
#[test]
fn decisions_say_what_they_saw() {
    let toolbox = toolbox(&Session::new(), Live::Nothing);
    let engineers = || vec!["group:engineers".to_owned()];
    let check = |tool: &str, input: &str, groups: Vec<String>, access: Option<Level>| {
        for (principal, approved_by) in [("user:grace", None), ("user:grace", Some("user:ada"))] {
            let input = Json::parse(input).unwrap();
            let (call, session) = (mint_call(), mint_session());
            let agent = "helper";
            let asked = Asked {
                call,
                tool,
                input: &input,
                session,
                depth: 0,
                agent,
                principal,
                groups: &[],
                approved_by,
            };
            let approved_by = approved_by.map(str::to_owned);
            let principal = principal.to_owned();
            let expected = Saw { principal, groups: groups.clone(), access, approved_by, observed: vec![] };
            assert_eq!(toolbox.authorize(&asked).saw, expected, "{tool}");
        }
    };
    check("look", TO, engineers(), Some(Level::Write));
    check("send", TO, engineers(), Some(Level::Write));
    check("http", POST, engineers(), Some(Level::Read));
    check("boss", TO, engineers(), Some(Level::Write));
    // Groups are told wherever it ends.
    check("send", "{}", engineers(), Some(Level::Write));
    check("rm", "{}", engineers(), None);
}

#[test]
fn an_unlisted_tool_is_answered_in_bounded_words() {
    let many = (0..1_000).map(|n| remote(&format!("tool-{n:04}"), Effect::Read));
    let toolbox = Session::new().toolbox(grants(), Live::Nothing, many);
    let because = ask(&toolbox, "user:ada", "rm", "{}", 0).because;
    assert!(because.contains("tool-0049 and 950 more)") && because.len() < 1_000, "{because}");
    let nothing = Session::new().toolbox(grants(), Live::Nothing, []);
    assert!(ask(&nothing, "user:ada", "rm", "{}", 0).because.contains("(it lists: none)"));
}

#[test]
fn those_who_may_are_let_through() {
    let toolbox = toolbox(&Session::new(), Live::Everything);
    for (principal, tool, input, depth) in [
        ("user:ada", "send", TO, 0),
        ("user:ada", "boss", TO, DEPTH_MAX - 1),
        ("user:ada", "send", TO, DEPTH_MAX),
        ("user:grace", "look", TO, 0),
        ("user:grace", "writer", TO, 0),
        ("user:grace", "http", r#"{"url":"https://example.com/"}"#, 0),
        ("user:grace", "http", r#"{"method":"HEAD","url":"https://example.com/"}"#, 0),
    ] {
        let decision = ask(&toolbox, principal, tool, input, depth);
        assert_eq!(
            (decision.verdict, decision.stub),
            (Verdict::Allow, false),
            "{principal} {tool} {}",
            decision.because
        );
    }
}

#[test]
fn a_call_is_as_strict_as_its_arguments() {
    let toolbox = toolbox(&Session::new(), Live::Nothing);
    let strictness = |tool: &str, input: &str| toolbox.strictness(tool, &Json::parse(input).unwrap());
    assert_eq!(strictness("http", POST), Some((Effect::Write, Risk::Low)));
    assert_eq!(strictness("http", r#"{"url":"https://example.com/"}"#), Some((Effect::Read, Risk::Low)));
    assert_eq!(strictness("send", TO), Some((Effect::Write, Risk::High)));
    assert_eq!(strictness("look", TO), Some((Effect::Read, Risk::Low)));
    assert_eq!(strictness("rm", TO), None);
}

/// What changes something outside of the session only pretends, unless someone let it happen.
#[test]
fn writes_outside_of_the_session_are_stubbed_unless_live() {
    let matching = |pattern: &str| Live::Matching(vec![pattern.to_owned()]);
    for (live, tool, stub) in [
        (Live::Nothing, "send", true),
        (Live::Nothing, "look", false),
        (Live::Nothing, "writer", false),
        (Live::Nothing, "edit_write", false),
        (Live::Everything, "send", false),
        (matching("send"), "send", false),
        (matching("mcp://mail.*"), "send", false),
        (matching("mcp://calendar.*"), "send", true),
    ] {
        let toolbox = toolbox(&Session::new(), live.clone());
        let input = if tool == "edit_write" { r#"{"path":"a","content":"b"}"# } else { TO };
        let decision = ask(&toolbox, "user:ada", tool, input, 0);
        assert_eq!((decision.verdict, decision.stub), (Verdict::Allow, stub), "{live:?} {tool}");
    }
    let writable = Offer { access: Level::Write, ..builtin(Builtin::Http) };
    let toolbox = Session::new().toolbox(grants(), Live::Nothing, [writable]);
    assert!(ask(&toolbox, "user:ada", "http", POST, 0).stub);
    // A refusal is no stub: nothing is pretended either.
    assert!(!ask(&toolbox, "user:eve", "http", POST, 0).stub);
}

#[tokio::test]
async fn a_stub_runs_nothing_and_says_so() {
    let session = Session::new();
    *session.servers.answer.lock().unwrap() = Answer::Text("sent".to_owned());
    let toolbox = toolbox(&session, Live::Nothing);
    let done = toolbox.execute(session.permit("send", TO, true).await).await.unwrap();
    insta::assert_snapshot!(
        done.words(),
        @r#"DRY RUN: nothing happened. `send` changes things outside of this session, and such calls are stubbed here. It would have been called with {"to":"bob"}. Do not claim that it was done. A person can let it happen with `--live-writes` or `--live-writes=send`."#
    );
    assert!(session.servers.called.lock().unwrap().is_empty());
    // The canary sings when the call is real.
    let done = toolbox.execute(session.permit("send", TO, false).await).await.unwrap();
    assert_eq!(done.words(), "sent");
    let called = session.servers.called.lock().unwrap();
    assert_eq!((called[0].server.as_str(), called[0].tool.as_str()), (MAIL, "remote-send"));
    assert_eq!((called[0].principal.as_str(), called[0].key.as_str()), ("user:ada", "key"));
    assert_eq!(called.len(), 1);
}

#[tokio::test]
async fn a_stub_repeats_long_arguments_in_part() {
    let session = Session::new();
    let long = json!({"to": "é".repeat(100_000)}).to_string();
    let done =
        toolbox(&session, Live::Nothing).execute(session.permit("send", &long, true).await).await.unwrap();
    assert!(
        done.words().len() < 3_000 && done.words().contains("é…. Do not claim"),
        "{}",
        done.words().len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_deadline_and_a_write_that_missed_it_is_unknown() {
    let session = Session::new();
    *session.servers.answer.lock().unwrap() = Answer::Never;
    let toolbox = toolbox(&session, Live::Everything);
    for (tool, outcome) in [("look", Outcome::Failed), ("send", Outcome::Unknown)] {
        let before = tokio::time::Instant::now();
        let failed =
            toolbox.execute(session.permit(tool, TO, false).await).await.map_err(failure).unwrap_err();
        let expected = Failed { outcome, ..Failed::new("timeout", "no result within 30 s") };
        assert_eq!(failed, expected, "{tool}");
        assert_eq!(before.elapsed(), DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_gives_its_tools_more_or_less_time() {
    let session = Session::new();
    *session.servers.answer.lock().unwrap() = Answer::Never;
    for timeout in [Duration::from_secs(7), Duration::from_secs(180)] {
        let offers = offers().into_iter().map(|offer| Offer { timeout: Some(timeout), ..offer });
        let toolbox = session.toolbox(grants(), Live::Everything, offers);
        let before = tokio::time::Instant::now();
        let failed =
            toolbox.execute(session.permit("look", TO, false).await).await.map_err(failure).unwrap_err();
        assert_eq!(failed.message, format!("no result within {} s", timeout.as_secs()));
        assert_eq!(before.elapsed(), timeout);
        // The server is told the same.
        assert_eq!(session.servers.called.lock().unwrap().last().unwrap().deadline, timeout);
    }
}

/// A server may ask for confirmation of a read. What comes with the program is low when it reads.
#[test]
fn the_risk_of_a_read_is_what_its_build_says() {
    let looks = Offer { risk: Risk::High, ..remote("look", Effect::Read) };
    let toolbox = Session::new().toolbox(grants(), Live::Nothing, vec![looks]);
    assert_eq!(toolbox.strictness("look", &Json::empty_object()), Some((Effect::Read, Risk::High)));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_calls_before_it_is_not_a_calls_own() {
    let session = Session::new();
    let before = session.files.edit().await.unwrap();
    let toolbox = toolbox(&session, Live::Nothing);
    let write = r#"{"path":"a.txt","content":"late"}"#;
    let call = toolbox.execute(session.permit("edit_write", write, false).await);
    let slow = async {
        tokio::time::sleep(3 * DEADLINE).await;
        drop(before);
    };
    let (done, ()) = tokio::join!(call, slow);
    done.unwrap();
    assert_eq!(session.files.text("a.txt"), "late");
}

/// What changes only its session does so with its result: one that was given up has certainly changed nothing.
#[tokio::test(start_paused = true)]
async fn a_contained_call_that_missed_its_deadline_changed_nothing() {
    struct Stuck;
    impl Files for Stuck {
        fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
            Box::pin(std::future::pending())
        }
        fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
            Box::pin(std::future::pending())
        }
        fn turn(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
        fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
            Box::pin(std::future::pending())
        }
    }
    let session = Session::new();
    let toolbox = toolbox(&session, Live::Nothing);
    let permit = session.permit("edit_write", r#"{"path":"a.txt","content":"late"}"#, false).await;
    let acknowledged = session.acknowledged().await;
    let mut started = permit.into_started();
    started.world.files = Arc::new(Stuck);
    let failed = toolbox.execute(Permit::new(&acknowledged, started)).await.map_err(failure).unwrap_err();
    assert_eq!(failed, Failed::new("timeout", "no result within 30 s"));
}

/// A server's word about its tool does not come between the tool and those who ask about risks.
#[test]
fn what_policy_is_told_of_a_call_is_what_the_author_said() {
    /// Asks about everything of high risk, and writes down what it was told.
    struct Asking(Mutex<Vec<(String, Effect, Risk)>>);
    impl Gate for Asking {
        fn decide(&self, request: &Request<'_>) -> Decision {
            let told = (request.tool.to_owned(), request.effect, request.risk);
            self.0.lock().unwrap().push(told);
            match request.risk {
                Risk::High => Decision::ask("high", "it is of high risk"),
                Risk::Low | Risk::Medium => Decision::allow("it is not"),
            }
        }
    }
    let gate = Arc::new(Asking(Mutex::default()));
    let asking: Arc<dyn Gate> = Arc::clone(&gate) as _;
    let http = Offer { risk: Risk::High, ..builtin(Builtin::Http) };
    let toolbox = Session::new().guarded(asking, Live::Nothing, [remote("send", Effect::Write), http]);
    let verdict = |tool: &str, input: &str| ask(&toolbox, "user:eve", tool, input, 0).verdict;
    assert_eq!(verdict("send", TO), Verdict::Ask);
    assert_eq!(verdict("http", r#"{"url":"https://example.com/"}"#), Verdict::Allow);
    // Neither a tool that is not listed nor arguments that do not fit get as far as that.
    assert_eq!((verdict("rm", TO), verdict("send", "{}")), (Verdict::Deny, Verdict::Deny));
    let told = gate.0.lock().unwrap().clone();
    let expected = [("send", Effect::Write, Risk::High), ("http", Effect::Read, Risk::Low)];
    assert_eq!(told, expected.map(|(tool, effect, risk)| (tool.to_owned(), effect, risk)));
    // It pretends all the same, should somebody say yes.
    assert!(ask(&toolbox, "user:eve", "send", TO, 0).stub);
}

#[tokio::test]
async fn a_long_result_is_read_back_byte_for_byte() {
    let session = Session::new();
    let text: String = (0..30_000).map(|n| format!("line {n} – é\n")).collect();
    *session.servers.answer.lock().unwrap() = Answer::Text(text.clone());
    let toolbox = session.toolbox(
        grants(),
        Live::Nothing,
        [remote("look", Effect::Read), builtin(Builtin::ResultRead)],
    );
    let done = toolbox.execute(session.permit("look", TO, false).await).await.unwrap();
    let words = done.words();
    let whole = done.whole.unwrap();
    assert_eq!(whole.hash(), Hash::of(text.as_bytes()));
    // As whoever writes the result down does.
    session.blobs.put_bytes(whole.into_content()).await.unwrap();
    let (shown, note) = words.split_at(words.rfind("\n[the first ").unwrap());
    assert!(text.starts_with(shown) && note.contains(&format!("of {} bytes", text.len())), "{note}");

    // As a model would: with the arguments that the note names, and then with the offset each part names.
    let (_, input) = note.split_once("result_read ").unwrap();
    let mut input: serde_json::Value =
        serde_json::from_str(input.split_inclusive('}').next().unwrap()).unwrap();
    let mut read = shown.to_owned();
    loop {
        let part =
            toolbox.execute(session.permit("result_read", &input.to_string(), false).await).await.unwrap();
        assert_eq!(part.whole, None);
        read.push_str(part.content[0].as_text().unwrap());
        let note = part.content[1].as_text().unwrap();
        let Some((_, next)) = note.split_once("read on with offset ") else { break };
        input["offset"] = next.trim_end_matches(']').parse::<u64>().unwrap().into();
        input["bytes"] = 20_001.into();
    }
    assert!(read == text, "{} bytes of {}", read.len(), text.len());
}

#[tokio::test]
async fn only_results_of_this_session_can_be_read() {
    let session = Session::new();
    let hash = Hash::of(b"elsewhere");
    assert_eq!(
        session.words("result_read", json!({"result": hash.to_string()})).await,
        format!(
            "error (missing): there is no result `{hash}` here; only long results of this session can be read"
        )
    );
    let words = session.words("result_read", json!({"result": "abc"})).await;
    assert!(words.starts_with("error (invalid): `abc` is not a SHA-256 hash"), "{words}");
    let blob = session.blobs.put_bytes(b"\xff\xfe".to_vec().into()).await.unwrap();
    let words = session.words("result_read", json!({"result": blob.hash.to_string()})).await;
    assert_eq!(words, "error (binary): the result is not text: 2 bytes");
}

#[tokio::test]
async fn a_failure_is_passed_on_in_bounded_words() {
    let session = Session::new();
    let failed = Failed { log: vec!["warn".into()], ..Failed::unknown("server", "x".repeat(1_000_000)) };
    *session.servers.answer.lock().unwrap() = Answer::Fail(failed);
    let toolbox = toolbox(&session, Live::Everything);
    let failed = toolbox.execute(session.permit("send", TO, false).await).await.map_err(failure).unwrap_err();
    assert!(failed.message.len() < 10_000 && failed.message.ends_with("more bytes left out]"));
    assert_eq!((failed.class.as_str(), failed.outcome, failed.log.len()), ("server", Outcome::Unknown, 1));
}

/// A permit is used up: `execute` takes it by value, and it cannot be cloned.
#[tokio::test]
async fn a_permit_is_for_one_call_of_a_tool_that_is_there() {
    trait Clonable {
        const IS: bool;
    }
    struct Check<T>(std::marker::PhantomData<T>);
    impl<T: Clone> Check<T> {
        #[allow(dead_code, reason = "shadows the trait's constant for types that can be cloned")]
        const IS: bool = true;
    }
    impl<T> Clonable for Check<T> {
        const IS: bool = false;
    }
    const { assert!(Check::<Json>::IS && !Check::<weir_tools::Permit>::IS) };

    let session = Session::new();
    let toolbox = toolbox(&session, Live::Nothing);
    let permit = session.permit("rm", "{}", false).await;
    assert_eq!(permit.started().tool, "rm");
    let failed = toolbox.execute(permit).await.map_err(failure).unwrap_err();
    assert_eq!(failed, Failed::new("missing", "there is no tool `rm`"));
}

#[tokio::test]
async fn an_agent_is_attended_in_the_session_that_was_begun_for_it() {
    let session = Session::new();
    let toolbox = toolbox(&session, Live::Nothing);
    let failed =
        toolbox.execute(session.permit("writer", TO, false).await).await.map_err(failure).unwrap_err();
    assert_eq!((failed.class.as_str(), failed.outcome), ("child", Outcome::Failed));
    assert!(matches!(toolbox.offer("writer").unwrap().kind, Kind::Agent(_)));
    assert_eq!(toolbox.offers().count(), 6);
}
