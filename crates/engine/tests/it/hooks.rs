//! Who is asked before something from outside is written down: about what, and what a no leaves behind.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_engine::{Address, EngineError, Hooks, Pretence, Refusal, StopReason};
use weir_events::{ApprovalGranted, SessionUpdated, is_refusable_kind};
use weir_types::{Explain, Fault, Json};

use crate::approving::{no, yes};
use crate::kit::*;

/// Refuses events of one kind, or of all, and remembers what it was asked about.
#[derive(Default)]
struct Guard {
    refuses: Mutex<Option<&'static str>>,
    asked: Mutex<Vec<(String, serde_json::Value)>>,
}

impl Hooks for Guard {
    fn refusal<'a>(&'a self, kind: &'a str, event: &'a Json) -> BoxFuture<'a, Option<Refusal>> {
        self.asked.lock().unwrap().push((kind.to_owned(), event.to_value()));
        let refuses = self.refuses.lock().unwrap().is_some_and(|refused| refused == "*" || refused == kind);
        let refusal = Refusal { hook: "guard".to_owned(), why: "not here".to_owned() };
        async move { refuses.then_some(refusal) }.boxed()
    }
}

impl Guard {
    fn set_for(world: &World) -> Arc<Self> {
        let guard = Arc::new(Self::default());
        *world.agents.3.lock().unwrap() = Some(Arc::clone(&guard) as Arc<dyn Hooks>);
        guard
    }

    fn refuse(&self, kind: Option<&'static str>) {
        *self.refuses.lock().unwrap() = kind;
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().drain(..).map(|(kind, _)| kind).collect()
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<T, EngineError>, kind: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.to_string(), format!("`guard` refuses this {kind}: not here"));
    assert_eq!((error.code(), error.fault()), ("engine::refused", Fault::Denied));
}

async fn events(world: &World, address: &Address) -> usize {
    world.events(address).await.len()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_written_down() {
    let world = World::new();
    world.agent("helper", vec![on_user(".", "Hello.")], &[]);
    let guard = Guard::set_for(&world);
    let process = world.start().await;
    let engine = &process.engine;
    let address = engine.new_address();
    for kind in ["session.created", "user.message"] {
        guard.refuse(Some(kind));
        refused(engine.begin(&address, new("helper"), said("hi")).await, kind);
        assert_eq!(world.journal.end().await.unwrap().0, 0, "nothing at all");
    }
    guard.refuse(None);
    engine.begin(&address, new("helper"), said("hi")).await.unwrap();
    engine.settle(&address).await.unwrap();
    let before = events(&world, &address).await;

    // Through the task that runs it, and as another process would.
    guard.refuse(Some("*"));
    let other = world.start().await;
    for engine in [engine, &other.engine] {
        refused(engine.say(&address, said("more")).await, "user.message");
        refused(engine.post(&address, said("more")).await, "user.message");
        refused(engine.signal(&address, "s", Json::null(), "user:test").await, "external.signal");
        let updated = SessionUpdated { title: Some("t".into()), labels: Default::default() };
        refused(engine.update(&address, updated, "user:test").await, "session.updated");
        assert_eq!(events(&world, &address).await, before);
    }
    // Nobody is kept from stopping something.
    engine.cancel(&address, "user:test").await.unwrap();
    engine.halt(&address, "stop", "user:test").await.unwrap();
    engine.close(&address, "over", "user:test").await.unwrap();
}

/// However much is refused: a run that has begun is not touched by it.
#[tokio::test(start_paused = true)]
async fn results_and_decisions_are_nobodys_to_refuse() {
    let world = World::new();
    let look = calling(on_user(".", "Let me look."), &[("look", "{}"), ("child", r#"{"message":"hi"}"#)]);
    world.agent("child", vec![on_user(".", "Hello.")], &[]);
    world.agent("helper", vec![look, on_tool("child", "Done.")], &["look", "child"]);
    let guard = Guard::set_for(&world);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("go")).await.unwrap();
    guard.refuse(Some("*"));
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::End, "{outcome:?}");
    // What an agent says to another one does not come from outside either.
    assert_eq!(guard.asked(), ["session.created", "user.message"]);
    let kinds = world.kinds(&address).await;
    for kind in ["tool.decided", "tool.started", "tool.completed", "run.finished"] {
        assert!(kinds.iter().any(|found| found == kind) && !is_refusable_kind(kind), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_yes_can_be_refused_and_a_no_cannot() {
    let world = World::new();
    let ask = calling(on_user(".", "May I?"), &[("ask", r#"{"n":1}"#), ("ask", r#"{"n":2}"#)]);
    world.agent("careful", vec![ask, on_tool("ask", "Done.")], &["ask"]);
    let guard = Guard::set_for(&world);
    let process = world.start().await;
    let engine = &process.engine;
    let address = engine.new_address();
    engine.begin(&address, new("careful"), said("go")).await.unwrap();
    let asked = engine.settle(&address).await.unwrap().approvals;
    let (before, _) = (events(&world, &address).await, guard.asked());

    guard.refuse(Some("*"));
    let edited =
        ApprovalGranted { input: Some(Json::parse(r#"{"n":3}"#).unwrap()), ..yes(&asked[0], "user:boss") };
    refused(engine.approve(&address, edited, Pretence::Allowed).await, "approval.granted");
    // From another process.
    let other = world.start().await;
    refused(
        other.engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await,
        "approval.granted",
    );
    assert_eq!((events(&world, &address).await, world.deeds.lock().unwrap().len()), (before, 0));
    let (kind, event) = guard.asked.lock().unwrap()[0].clone();
    assert_eq!(kind, "approval.granted");
    assert_eq!((&event["kind"], &event["meta"]["actor"]), (&kind.clone().into(), &"user:boss".into()));
    assert_eq!((&event["payload"]["by"], &event["payload"]["input"]["n"]), (&"user:boss".into(), &3.into()));
    assert_eq!(event["stream"], format!("session:{}", address.session));

    guard.asked();
    engine.deny(&address, no(&asked[1], "user:boss", "no")).await.unwrap();
    assert_eq!(guard.asked(), [""; 0], "nobody is asked about a no");
    guard.refuse(None);
    engine.approve(&address, yes(&asked[0], "user:boss"), Pretence::Allowed).await.unwrap();
    let outcome = engine.settle(&address).await.unwrap();
    assert_eq!((outcome.stop, world.deeds.lock().unwrap().len()), (StopReason::End, 1), "{outcome:?}");
}
