//! Script tools: JavaScript that was TypeScript, in a fresh interpreter for each call.
//!
//! A script has the language, what its prelude adds (`fetch` to the hosts its entry lists, `console`, timers, URLs, bytes) and
//! the modules it was built with. It has no files, no processes, no environment, and runs no text as code. Each call has its
//! own interpreter on its own thread with limits on memory, stack, time and what it says; nothing is left of it for the
//! next. The interpreter is no wall against its own bugs: a project's scripts are trusted as much as its specs.

mod console;
mod fault;
mod host;
mod map;
mod modules;
mod pool;
mod urls;
mod vm;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_types::{Json, Level, Outcome};

use self::console::Console;
use self::host::{Event, FETCHES_AT_ONCE, Reach};
use self::pool::{Full, Pool};
use self::vm::{Call, Ended, Role, Stop};
use crate::call::{Done, Failed, Started};
use crate::hook::HookError;
use crate::net::Net;
use crate::offer::Offer;
use crate::toolbox::Setup;

/// A script with all that it imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The module that is run.
    pub entry: String,
    /// That module and all that it imports, by path.
    pub modules: BTreeMap<String, Module>,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// JavaScript.
    pub code: String,
    /// Its source map.
    pub map: Option<String>,
}

/// One for the process, as the processors are.
static POOL: LazyLock<Arc<Pool>> = LazyLock::new(Arc::default);

/// What is kept of a call's time to stop its script and to tell how it ended, before everybody stops waiting.
const CLOSING_MAX: Duration = Duration::from_millis(500);

/// Runs the script of a call.
///
/// # Cancel safety
/// Dropping it stops the script soon after; what its requests did is then unknown.
pub(crate) async fn call(
    bundle: &Arc<Bundle>,
    offer: &Offer,
    started: &Started,
    setup: &Setup,
) -> Result<Done, Failed> {
    let task = Task {
        bundle,
        role: Role::Tool,
        input: started.input.as_str().to_owned(),
        context: json!({"key": started.key, "attempt": started.attempt}).to_string(),
        net: setup.net.clone(),
        hosts: offer.hosts.as_slice().into(),
        may_write: offer.access == Level::Write,
        deadline: setup.deadline,
        cpu: offer.cpu.unwrap_or(setup.deadline),
        cancelled: started.cancelled.clone(),
    };
    let (running, ended) = run(task).await?;
    running.close(ended, bundle)
}

/// Asks a script that is a hook about an event. It reaches nothing.
///
/// # Errors
/// When it does not say yes.
///
/// # Cancel safety
/// Dropping it stops the script soon after.
pub async fn judge(bundle: &Arc<Bundle>, event: &Json, deadline: Duration) -> Result<(), HookError> {
    let task = Task {
        bundle,
        role: Role::Hook,
        input: event.as_str().to_owned(),
        context: "{}".to_owned(),
        net: Net::default(),
        hosts: [].into(),
        may_write: false,
        deadline,
        cpu: deadline,
        cancelled: CancellationToken::new(),
    };
    let broken = |failed: Failed| HookError::Broken(failed.message);
    let (running, ended) = run(task).await.map_err(broken)?;
    // To throw is a way to say no; so is an answer that never comes.
    let is_answer = match &ended {
        Some(Ended::Returned(None)) => return Ok(()),
        Some(Ended::Returned(Some(why))) => return Err(HookError::Refused(why.clone())),
        Some(Ended::Threw(fault)) => !fault.is_memory,
        Some(Ended::Never) => true,
        Some(Ended::Stopped(..)) | None => false,
    };
    match running.close(ended, bundle) {
        Err(failed) if is_answer => Err(HookError::Refused(failed.message)),
        Err(failed) => Err(broken(failed)),
        Ok(_) => Ok(()),
    }
}

/// A script to run.
struct Task<'a> {
    bundle: &'a Arc<Bundle>,
    role: Role,
    input: String,
    context: String,
    net: Net,
    hosts: Arc<[String]>,
    may_write: bool,
    deadline: Duration,
    /// How much processor time it may use.
    cpu: Duration,
    cancelled: CancellationToken,
}

/// Runs it until it has ended, or will not.
async fn run(task: Task<'_>) -> Result<(Running, Option<Ended>), Failed> {
    let running =
        Running { console: Console::default(), writes: Arc::default(), time: within(task.deadline) };
    let ends = Instant::now() + running.time;
    let place = tokio::select! {
        biased;
        () = task.cancelled.cancelled() => return Err(running.failed("cancelled", "it was cancelled")),
        place = POOL.enter(ends) => place.map_err(full)?,
    };
    let (events, inbox) = sync_channel(FETCHES_AT_ONCE + 1);
    let stop = StopOnDrop { stopped: Arc::default(), events: events.clone() };
    let call = Call {
        bundle: Arc::clone(task.bundle),
        role: task.role,
        input: task.input,
        context: task.context,
        reach: Reach {
            net: task.net,
            hosts: task.hosts,
            may_write: task.may_write,
            runtime: Handle::current(),
            ends: ends.into_std(),
            console: running.console.clone(),
            writes: Arc::clone(&running.writes),
            events,
        },
        events: inbox,
        stopped: Arc::clone(&stop.stopped),
        cpu: task.cpu,
    };
    let (tell, told) = oneshot::channel();
    // Not one of the runtime's own threads: those have to end with it, and have a stack that is not for us to say.
    let thread = std::thread::Builder::new().name("script".to_owned()).stack_size(vm::THREAD_STACK_BYTES);
    let spawned = thread.spawn(move || {
        let ended = vm::run(call);
        drop(place);
        // Nobody may be waiting any more.
        let _ = tell.send(ended);
    });
    if let Err(error) = spawned {
        return Err(running.failed("script", &format!("there is no thread for the script: {error}")));
    }
    tokio::select! {
        ended = told => Ok((running, ended.ok())),
        // It should have noticed by itself.
        () = tokio::time::sleep_until(ends + running.time / 20) => Err(running.late(None, task.bundle)),
        () = task.cancelled.cancelled() => Err(running.failed("cancelled", "it was cancelled")),
    }
}

/// How long a script may run, of the time a call has.
fn within(deadline: Duration) -> Duration {
    deadline - (deadline / 10).min(CLOSING_MAX)
}

fn full(full: Full) -> Failed {
    match full {
        Full::Busy => Failed::new("busy", "too many scripts are running; try again later"),
        Full::Lost => {
            Failed::new("busy", "too many scripts are stuck and cannot be stopped; weir has to be restarted")
        }
    }
}

/// What is known of a running script from outside.
struct Running {
    console: Console,
    writes: Arc<AtomicUsize>,
    time: Duration,
}

impl Running {
    fn close(&self, ended: Option<Ended>, bundle: &Bundle) -> Result<Done, Failed> {
        match ended {
            Some(Ended::Returned(result)) => {
                let text = result.unwrap_or_else(|| "(no result)".to_owned());
                Ok(Done { log: self.console.lines(), ..Done::text(text) })
            }
            Some(Ended::Threw(fault)) => {
                if let Some(trace) = fault.trace() {
                    self.console.write(&trace);
                }
                let class = if fault.is_memory { "memory" } else { "script" };
                Err(self.failed(class, &fault.told(bundle)))
            }
            Some(Ended::Stopped(Stop::Outside, fault)) => Err(self.late(fault.as_ref(), bundle)),
            Some(Ended::Stopped(Stop::Cpu(limit), fault)) => {
                let (near, seconds) = (near(fault.as_ref()), limit.as_secs_f64());
                let message = format!(
                    "{}: stopped after {seconds:.1} s of processor time{near}; it may run for ever, and `cpu` in the tool's entry sets \
                     this limit",
                    bundle.entry
                );
                Err(self.failed("limit", &message))
            }
            Some(Ended::Never) => {
                let message = "it waits for a promise that nothing can settle any more: no request and no timer is left";
                Err(self.failed("script", &format!("{}: {message}", bundle.entry)))
            }
            None => Err(self.failed("script", "the interpreter broke down; this is a bug in weir")),
        }
    }

    fn late(&self, fault: Option<&fault::Fault>, bundle: &Bundle) -> Failed {
        let near = near(fault);
        let seconds = self.time.as_secs_f64();
        self.failed("timeout", &format!("{}: not done after {seconds:.1} s{near}", bundle.entry))
    }

    fn failed(&self, class: &str, message: &str) -> Failed {
        let wrote = self.writes.load(Ordering::Relaxed) > 0;
        let outcome = if wrote { Outcome::Unknown } else { Outcome::Failed };
        let message = match wrote {
            true => format!("{message} (it had made requests that may have changed something)"),
            false => message.to_owned(),
        };
        Failed { class: class.to_owned(), message, outcome, log: self.console.lines() }
    }
}

/// Where a script was stopped. The interpreter knows the function, and the line only roughly.
fn near(fault: Option<&fault::Fault>) -> String {
    let place = fault.and_then(|fault| fault.places.first());
    place.map_or_else(String::new, |place| format!(" (it was near {place})"))
}

/// Stops a script when nobody waits for it any more.
struct StopOnDrop {
    stopped: Arc<AtomicBool>,
    events: SyncSender<Event>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // If there is no room, it has events to look at, and sees that it is stopped.
        let _ = self.events.try_send(Event::Stop);
    }
}
