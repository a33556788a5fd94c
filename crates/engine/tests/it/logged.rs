//! What an operator sees in the log: begin and end of runs and calls, retries, take-overs, and never a
//! message or an argument.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use weir_models::scripted::Reply;
use weir_types::FailureClass;

use crate::kit::*;

/// The records of a thread, from debug on.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Record>>>);

#[derive(Clone, Debug, Default)]
struct Record(BTreeMap<&'static str, String>);

impl Record {
    fn message(&self) -> &str {
        &self["message"]
    }
}

impl std::ops::Index<&str> for Record {
    type Output = String;

    fn index(&self, field: &str) -> &String {
        self.0.get(field).unwrap_or_else(|| panic!("no `{field}` in {self:?}"))
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::DEBUG && event.metadata().target().starts_with("weir") {
            let mut record = Record::default();
            event.record(&mut record);
            self.0.lock().unwrap().push(record);
        }
    }
}

impl Log {
    /// Begins to keep the records of this thread.
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = set_default(tracing_subscriber::registry().with(log.clone()));
        (log, guard)
    }

    fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, message: &str) -> Vec<Record> {
        self.records().into_iter().filter(|record| record.message() == message).collect()
    }

    fn messages(&self) -> Vec<String> {
        self.records().iter().map(|record| record.message().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_call_is_told_from_its_begin_to_its_end() {
    let (log, _guard) = Log::begin();
    let world = World::new();
    let look = calling(on_user("hunter2", "A hunter2 answer."), &[("look", r#"{"word":"hunter2"}"#)]);
    world.agent("helper", vec![look, on_tool("look", "It rains, hunter2.")], &["look"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("a hunter2 question")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    assert_eq!(
        log.messages(),
        [
            "session claimed",
            "run started",
            "model call started",
            "model call completed",
            "tool call started",
            "tool call completed",
            "model call started",
            "model call completed",
            "run finished",
            "session released",
        ]
    );
    let session = address.session.to_string();
    assert!(log.records().iter().all(|record| record["session"] == session && record["branch"] == "main"));
    let run = log.of("run started")[0]["run"].clone();
    let in_run = log.records().into_iter().filter(|record| !record.message().starts_with("session"));
    assert!(in_run.into_iter().all(|record| record["run"] == run));
    let (started, completed) = (&log.of("tool call started")[0], &log.of("tool call completed")[0]);
    assert_eq!((&*started["tool"], &*started["attempt"]), ("look", "1"));
    assert_eq!((&started["call"], &started["tool"]), (&completed["call"], &completed["tool"]));
    let asked = &log.of("model call started")[0];
    assert_eq!((&*asked["model"], &*asked["attempt"]), ("scripted/test", "1"));
    let told = format!("{:?}", log.records());
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_told_with_its_reason_and_its_delay() {
    let (log, _guard) = Log::begin();
    let world = World::new();
    let busy = Reply { error: Some(FailureClass::Overloaded), times: Some(1), ..on_user("", "") };
    world.agent("helper", vec![busy, on_user("", "Yes.")], &[]);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("helper"), said("hello")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let retries = log.of("model call failed; it is tried again");
    assert_eq!(retries.len(), 1, "{:?}", log.messages());
    assert_eq!((&*retries[0]["class"], &*retries[0]["attempt"]), ("overloaded", "1"));
    assert!(retries[0]["delay_ms"].parse::<u64>().unwrap() > 0);
    let attempts: Vec<String> =
        log.of("model call started").iter().map(|record| record["attempt"].clone()).collect();
    assert_eq!(attempts, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_take_over_is_told_once_and_by_whom_it_was() {
    let (log, _guard) = Log::begin();
    let world = World::new();
    let look = calling(on_user("", "Let me look."), &[("look", "{}")]);
    world.agent("helper", vec![look, on_tool("look", "It rains.")], &["look"]);
    // The third append holds what came of the call.
    let first = world.start_with(Fuse::at(3, Side::Before), |_| {}).await;
    let address = first.engine.new_address();
    first.engine.begin(&address, new("helper"), said("the weather?")).await.unwrap();
    first.fuse.blown().await;
    first.die();
    assert!(log.of("session taken over from a dead process").is_empty());
    let second = world.start().await;
    second.engine.settle(&address).await.unwrap();
    let taken = log.of("session taken over from a dead process");
    assert_eq!(taken.len(), 1, "{:?}", log.messages());
    assert_eq!(taken[0]["session"], address.session.to_string());
    assert_eq!(taken[0]["from"], first.me.to_string());
    let claims: Vec<String> =
        log.of("session claimed").iter().map(|record| record["reason"].clone()).collect();
    assert_eq!(claims, ["Input", "Recovery"]);
}
