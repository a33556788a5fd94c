//! What the world of a script can do for it, as its prelude asks: requests, timers, its console, bytes and URLs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rquickjs::{ArrayBuffer, Ctx, Function, IntoJs, Object, Result, Value};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::console::Console;
use crate::net::{Limits, Net, NetError, Request, Response, is_safe};

/// Most requests of one call, and of those at once. An answer counts until the script has it.
const FETCHES_MAX: usize = 256;
pub(super) const FETCHES_AT_ONCE: usize = 8;

/// Most timers at once.
const TIMERS_MAX: usize = 1000;

/// The longest result, in characters. What is longer than a request can show goes to a blob, and that is read in parts.
const RESULT_CHARACTERS_MAX: usize = 8 * 1024 * 1024;

/// What happens outside while a script waits.
pub(super) enum Event {
    /// A request ended. The permit is given back when the script has the answer.
    Fetched { id: u32, outcome: std::result::Result<Response, NetError>, permit: OwnedSemaphorePermit },
    /// Nobody waits for the script any more.
    Stop,
}

/// What a script may reach.
pub(super) struct Reach {
    pub(super) net: Net,
    pub(super) hosts: Arc<[String]>,
    /// Whether its entry offers it for writing.
    pub(super) may_write: bool,
    pub(super) runtime: Handle,
    /// When all has to be done.
    pub(super) ends: Instant,
    pub(super) console: Console,
    /// Requests that may have changed something.
    pub(super) writes: Arc<AtomicUsize>,
    pub(super) events: SyncSender<Event>,
}

/// The world of one script.
pub(super) struct Host {
    reach: Reach,
    permits: Arc<Semaphore>,
    /// Requests under way. Dropping it ends them.
    tasks: RefCell<JoinSet<()>>,
    open: RefCell<BTreeMap<u32, AbortHandle>>,
    started: Cell<usize>,
    timers: RefCell<BTreeSet<(Instant, u32)>>,
}

/// What a waiting script has to do next.
pub(super) enum Next {
    /// Call this timer.
    Timer(u32),
    /// Take this answer.
    Fetched(u32, std::result::Result<Response, NetError>, OwnedSemaphorePermit),
    /// Nothing any more: the time is over, or nobody waits.
    Stop,
    /// Nothing, ever: there is nothing to wait for.
    Never,
}

impl Host {
    pub(super) fn new(reach: Reach) -> Rc<Self> {
        Rc::new(Self {
            reach,
            permits: Arc::new(Semaphore::new(FETCHES_AT_ONCE)),
            tasks: RefCell::default(),
            open: RefCell::default(),
            started: Cell::new(0),
            timers: RefCell::default(),
        })
    }

    /// Waits until there is something to do.
    pub(super) fn wait(&self, events: &Receiver<Event>) -> Next {
        let now = Instant::now();
        if now >= self.reach.ends {
            return Next::Stop;
        }
        let due = self.timers.borrow().first().copied();
        if let Some((at, id)) = due.filter(|(at, _)| *at <= now) {
            self.timers.borrow_mut().remove(&(at, id));
            return Next::Timer(id);
        }
        if due.is_none() && self.open.borrow().is_empty() {
            return Next::Never;
        }
        let until = due.map_or(self.reach.ends, |(at, _)| at.min(self.reach.ends));
        match events.recv_timeout(until - now) {
            Ok(Event::Fetched { id, outcome, permit }) => {
                self.open.borrow_mut().remove(&id);
                Next::Fetched(id, outcome, permit)
            }
            Ok(Event::Stop) => Next::Stop,
            // Look again: a timer is due, or the end has come.
            Err(_) => self.wait(events),
        }
    }

    /// How many requests nobody has waited for.
    pub(super) fn left_open(&self) -> usize {
        self.open.borrow().len()
    }

    fn fetch(&self, id: u32, request: Request) -> Option<String> {
        if self.started.get() >= FETCHES_MAX {
            return Some(format!("one call can make {FETCHES_MAX} requests"));
        }
        // What is offered for reading is not stubbed and needs no grant to write, so it cannot be let write.
        if !is_safe(&request.method) && !self.reach.may_write {
            return Some(format!(
                "a {} may change something, and this tool is offered with `access: read`; `access: write` in the agent's spec would \
                 allow it",
                request.method
            ));
        }
        self.started.set(self.started.get() + 1);
        let writes = (!is_safe(&request.method)).then(|| Arc::clone(&self.reach.writes));
        let (net, hosts, events) =
            (self.reach.net.clone(), Arc::clone(&self.reach.hosts), self.reach.events.clone());
        let (permits, ends) = (Arc::clone(&self.permits), self.reach.ends);
        let work = async move {
            let Ok(permit) = permits.acquire_owned().await else { return };
            if let Some(writes) = &writes {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            let left = ends.saturating_duration_since(Instant::now());
            let outcome = net.fetch(request, &hosts, &Limits::within(left)).await;
            if let (Some(writes), Err(NetError { wrote: false, .. })) = (&writes, &outcome) {
                writes.fetch_sub(1, Ordering::Relaxed);
            }
            // There is room for every answer that holds a permit, and for the one event to stop.
            let _ = events.try_send(Event::Fetched { id, outcome, permit });
        };
        let handle = self.tasks.borrow_mut().spawn_on(work, &self.reach.runtime);
        self.open.borrow_mut().insert(id, handle);
        None
    }

    fn abort(&self, id: u32) {
        if let Some(handle) = self.open.borrow_mut().remove(&id) {
            handle.abort();
        }
    }

    fn arm(&self, id: u32, milliseconds: f64) {
        // What is later than the end never comes.
        let wait = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or(Duration::MAX);
        let at = Instant::now().checked_add(wait).unwrap_or(self.reach.ends).min(self.reach.ends);
        self.timers.borrow_mut().insert((at, id));
    }

    fn disarm(&self, id: u32) {
        self.timers.borrow_mut().retain(|(_, each)| *each != id);
    }
}

/// The object that the prelude is given.
pub(super) fn object<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let own = |host: &Rc<Host>| Rc::clone(host);
    let console = host.reach.console.clone();
    object.set("log", Function::new(ctx.clone(), move |line: String| console.write(&line))?)?;
    let this = own(host);
    object.set("arm", Function::new(ctx.clone(), move |id: u32, wait: f64| this.arm(id, wait))?)?;
    let this = own(host);
    object.set("disarm", Function::new(ctx.clone(), move |id: u32| this.disarm(id))?)?;
    let this = own(host);
    let fetch = move |id, method, url, headers: Vec<Vec<String>>, body: Option<String>, is_binary: bool| {
        let headers = pairs(headers);
        let body = body.map(|text| if is_binary { from_binary(&text) } else { text.into_bytes() }.into());
        this.fetch(id, Request { method, url, headers, body })
    };
    object.set("fetch", Function::new(ctx.clone(), fetch)?)?;
    let this = own(host);
    object.set("abort", Function::new(ctx.clone(), move |id: u32| this.abort(id))?)?;
    object.set("timersMax", TIMERS_MAX)?;
    object.set("resultMax", RESULT_CHARACTERS_MAX)?;
    bytes(ctx, &object)?;
    super::urls::install(ctx, &object)?;
    Ok(object)
}

/// Pairs, as scripts have them.
pub(super) fn pairs(lists: Vec<Vec<String>>) -> Vec<(String, String)> {
    lists.into_iter().filter_map(|list| <[String; 2]>::try_from(list).ok()).map(Into::into).collect()
}

/// Bytes come out of a script as text with one character for each.
fn from_binary(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u8).collect()
}

fn to_binary(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
    let encode = |ctx: Ctx<'js>, text: String| ArrayBuffer::new_copy(ctx, text.as_bytes());
    object.set("encode", Function::new(ctx.clone(), encode)?)?;
    let decode = |text: String, is_fatal: bool| match String::from_utf8(from_binary(&text)) {
        Ok(text) => Some(text),
        Err(_) if is_fatal => None,
        Err(error) => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    };
    object.set("decode", Function::new(ctx.clone(), decode)?)?;
    let btoa = |text: String| STANDARD.encode(from_binary(&text));
    object.set("btoa", Function::new(ctx.clone(), btoa)?)?;
    let atob = |text: String| {
        let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let padded = STANDARD.decode(&text).or_else(|_| STANDARD_NO_PAD.decode(&text));
        padded.ok().map(|bytes| to_binary(&bytes))
    };
    object.set("atob", Function::new(ctx.clone(), atob)?)?;
    let random = |ctx: Ctx<'js>, count: usize| {
        let bytes = randomness(&ctx, count)?;
        ArrayBuffer::new_copy(ctx, bytes)
    };
    object.set("random", Function::new(ctx.clone(), random)?)?;
    let uuid = |ctx: Ctx<'js>| randomness(&ctx, 16).map(|bytes| uuid(&bytes));
    object.set("uuid", Function::new(ctx.clone(), uuid)?)
}

fn randomness(ctx: &Ctx<'_>, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(rquickjs::Exception::throw_internal(ctx, "the system has no randomness")),
    }
}

/// Version 4, variant 1.
fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().take(16).enumerate() {
        let byte = match at {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// An answer, as the prelude takes it: its body as text if it is text.
pub(super) fn answer<'js>(ctx: &Ctx<'js>, response: Response) -> Result<Object<'js>> {
    let Response { status, url, redirected, headers, body } = response;
    let object = Object::new(ctx.clone())?;
    object.set("status", status)?;
    let reason = reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    object.set("statusText", reason.unwrap_or_default())?;
    object.set("url", url)?;
    object.set("redirected", redirected)?;
    object.set("headers", headers.into_iter().map(|(name, value)| vec![name, value]).collect::<Vec<_>>())?;
    let body: Value<'js> = match std::str::from_utf8(&body) {
        Ok(text) => text.into_js(ctx)?,
        Err(_) => ArrayBuffer::new_copy(ctx.clone(), &body)?.into_value(),
    };
    object.set("body", body)?;
    Ok(object)
}
