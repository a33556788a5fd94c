//! One script on its thread: a fresh interpreter, the script's modules, one call, and the interpreter is gone.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Persistent, Promise, Result, Runtime, Value};

use super::Bundle;
use super::fault::Fault;
use super::host::{Event, Host, Next, Reach, answer, object};
use super::modules::Modules;

/// All that a script keeps in memory.
pub(super) const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How deep calls may be nested: ten thousand simple ones.
const STACK_BYTES_MAX: usize = 1024 * 1024;

/// The stack of the thread: what the interpreter calls on top of its own limit has to fit, too.
pub(super) const THREAD_STACK_BYTES: usize = 4 * STACK_BYTES_MAX;

/// What scripts have beside the language: what all need, and what is read when it is asked for.
const CORE: &str = include_str!("prelude/core.js");
const PARTS: [(&str, &str); 3] = [
    ("bytes", include_str!("prelude/bytes.js")),
    ("urls", include_str!("prelude/urls.js")),
    ("requests", include_str!("prelude/requests.js")),
];

/// One call of a script.
pub(super) struct Call {
    pub(super) bundle: Arc<Bundle>,
    pub(super) role: Role,
    /// The arguments, as JSON.
    pub(super) input: String,
    /// What else it is given, as JSON.
    pub(super) context: String,
    pub(super) reach: Reach,
    pub(super) events: Receiver<Event>,
    /// Set when nobody waits for it any more.
    pub(super) stopped: Arc<AtomicBool>,
    /// How much processor time it may use.
    pub(super) cpu: Duration,
}

/// What a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A tool, with `execute`.
    Tool,
    /// A function that is asked about an event; its result is what it has against it.
    Hook,
}

impl Role {
    /// The function of the prelude that calls it.
    const fn caller(self) -> &'static str {
        match self {
            Self::Tool => "run",
            Self::Hook => "judge",
        }
    }
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With a result: text as it is, anything else as JSON; nothing if there is none.
    Returned(Option<String>),
    /// With an error.
    Threw(Fault),
    /// It was stopped; where, if that is known.
    Stopped(Stop, Option<Fault>),
    /// It waits for something that cannot happen.
    Never,
}

/// Why a script is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its time is over, or nobody waits for it.
    Outside,
    /// It used this much processor time, which is all it may.
    Cpu(Duration),
}

/// What the prelude gives to the host, kept from one entry into the interpreter to the next.
struct Prelude {
    fire: Persistent<Function<'static>>,
    settle: Persistent<Function<'static>>,
}

/// Runs a call to its end, on this thread.
pub(super) fn run(call: Call) -> Ended {
    let Call { bundle, role, input, context, reach, events, stopped, cpu } = call;
    let (ends, console) = (reach.ends, reach.console.clone());
    let began = thread_cpu();
    let stop = move || {
        if stopped.load(Ordering::Relaxed) || Instant::now() >= ends {
            return Some(Stop::Outside);
        }
        (thread_cpu().saturating_sub(began) >= cpu).then_some(Stop::Cpu(cpu))
    };
    let host = Host::new(reach);
    let interrupts = stop.clone();
    let made = interpreter(&bundle, move || interrupts().is_some());
    let Ok((runtime, js)) = made else { return Ended::Threw(Fault::memory()) };
    let machine =
        Machine { runtime: &runtime, js: &js, bundle: &bundle, host: &host, events: &events, stop: &stop };
    let ended = machine.call(role, input, context).unwrap_or_else(|ended| ended);
    if let (Ended::Returned(_), open @ 1..) = (&ended, host.left_open()) {
        console
            .write(&format!("warn: {open} requests were under way when the tool returned, and were dropped"));
    }
    ended
}

/// The processor time that this thread has used.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn interpreter(bundle: &Arc<Bundle>, is_over: impl Fn() -> bool + 'static) -> Result<(Runtime, Context)> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(MEMORY_BYTES_MAX);
    runtime.set_max_stack_size(STACK_BYTES_MAX);
    runtime.set_interrupt_handler(Some(Box::new(is_over)));
    runtime.set_loader(Modules(Arc::clone(bundle)), Modules(Arc::clone(bundle)));
    let context = Context::full(&runtime)?;
    Ok((runtime, context))
}

struct Machine<'a> {
    runtime: &'a Runtime,
    js: &'a Context,
    bundle: &'a Bundle,
    host: &'a Rc<Host>,
    events: &'a Receiver<Event>,
    /// Why the script has to be stopped now, if it has.
    stop: &'a dyn Fn() -> Option<Stop>,
}

impl Machine<'_> {
    fn call(&self, role: Role, input: String, context: String) -> std::result::Result<Ended, Ended> {
        let (prelude, run, loading) = self.enter(|ctx| {
            let prelude = prelude(ctx, self.host)?;
            let kept =
                |name: &str| Ok::<_, Error>(Persistent::save(ctx, prelude.get::<_, Function<'_>>(name)?));
            let (run, fire, settle) = (kept(role.caller())?, kept("fire")?, kept("settle")?);
            let loading = Module::import(ctx, self.bundle.entry.as_str())?;
            Ok((Prelude { fire, settle }, run, Persistent::save(ctx, loading)))
        })?;
        self.finish(&prelude, &loading)?;
        let running = self.enter(|ctx| {
            let module: Value<'_> = settled(ctx, &loading)?;
            let promise: Promise<'_> = run.restore(ctx)?.call((module, input, context))?;
            Ok(Persistent::save(ctx, promise))
        })?;
        self.finish(&prelude, &running)?;
        let result: Option<String> = self.enter(|ctx| settled(ctx, &running))?;
        Ok(Ended::Returned(result))
    }

    /// Works and waits until a promise is settled.
    fn finish(
        &self,
        prelude: &Prelude,
        promise: &Persistent<Promise<'static>>,
    ) -> std::result::Result<(), Ended> {
        loop {
            self.work()?;
            let state = self.enter(|ctx| Ok(promise.clone().restore(ctx)?.state()))?;
            match state {
                PromiseState::Resolved | PromiseState::Rejected => return Ok(()),
                PromiseState::Pending => {}
            }
            match self.host.wait(self.events) {
                Next::Timer(id) => {
                    self.enter(|ctx| prelude.fire.clone().restore(ctx)?.call::<_, ()>((id,)))?;
                }
                Next::Fetched(id, outcome, permit) => {
                    self.enter(|ctx| {
                        let settle = prelude.settle.clone().restore(ctx)?;
                        match outcome {
                            Ok(response) => settle.call::<_, ()>((
                                id,
                                Value::new_undefined(ctx.clone()),
                                answer(ctx, response)?,
                            )),
                            Err(error) => settle.call::<_, ()>((id, error.told())),
                        }
                    })?;
                    drop(permit);
                }
                Next::Stop => return Err(Ended::Stopped(Stop::Outside, None)),
                Next::Never => return Err(Ended::Never),
            }
        }
    }

    /// Runs what is ready to run.
    fn work(&self) -> std::result::Result<(), Ended> {
        loop {
            match self.runtime.execute_pending_job() {
                Ok(false) => return Ok(()),
                Ok(true) => {}
                // What a job throws is dropped, but for being stopped: its promise has been told of everything else.
                Err(job) => {
                    let thrown = job.0.with(|ctx| Fault::pending(&ctx, self.bundle));
                    if let Some(stop) = (self.stop)() {
                        return Err(Ended::Stopped(stop, Some(thrown)));
                    }
                }
            }
            if let Some(stop) = (self.stop)() {
                return Err(Ended::Stopped(stop, None));
            }
        }
    }

    /// Enters the interpreter. What it throws ends the call.
    fn enter<T>(&self, work: impl for<'js> FnOnce(&Ctx<'js>) -> Result<T>) -> std::result::Result<T, Ended> {
        self.js.with(|ctx| {
            let error = match work(&ctx) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let fault = match error {
                Error::Exception => Fault::pending(&ctx, self.bundle),
                Error::Allocation => Fault::memory(),
                other => Fault { places: Vec::new(), words: other.to_string(), is_memory: false },
            };
            Err(match (self.stop)() {
                Some(stop) => Ended::Stopped(stop, Some(fault)),
                None => Ended::Threw(fault),
            })
        })
    }
}

/// Runs the prelude, and gives what it gives.
fn prelude<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let host = object(ctx, host)?;
    let part = |ctx: Ctx<'js>, name: String| {
        let part = PARTS.iter().find(|(each, _)| *each == name);
        part.map(|(_, code)| read(&ctx, code)).transpose()
    };
    host.set("part", Function::new(ctx.clone(), part)?)?;
    read(ctx, CORE)?.call((host,))
}

/// The function that a file of the prelude is.
fn read<'js>(ctx: &Ctx<'js>, code: &str) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some("weir:prelude".to_owned());
    ctx.eval_with_options(code, options)
}

/// What a promise came to.
fn settled<'js, T: rquickjs::FromJs<'js>>(
    ctx: &Ctx<'js>,
    promise: &Persistent<Promise<'static>>,
) -> Result<T> {
    promise.clone().restore(ctx)?.result().unwrap_or(Err(Error::WouldBlock))
}
