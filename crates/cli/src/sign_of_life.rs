//! What a person at a terminal sees while nothing else happens: a line on standard error that says what is waited for, and
//! for how long. It is gone before anything else is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use weir_events::Body;
use weir_types::CallId;

use crate::show::{printable, shorten};

/// Short waits show nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the line is drawn.
pub(crate) const EVERY: Duration = Duration::from_millis(125);

const FRAMES: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠇', '⠏', '⠹'];

/// Columns for the line where nobody says how many there are.
const COLUMNS: usize = 80;

/// What is waited for.
#[derive(Debug)]
pub(crate) struct SignOfLife {
    is_shown: bool,
    columns: usize,
    drawn: bool,
    frame: usize,
    since: Instant,
    asking: Option<Asking>,
    /// Calls that were asked for, and where their tools come from.
    calls: BTreeMap<CallId, (String, String)>,
    /// Those that run.
    running: Vec<CallId>,
    /// MCP servers that were called before: the first call of one may have to start it.
    servers: BTreeSet<String>,
    /// The server that is being called for the first time.
    starting: Option<(CallId, String)>,
}

/// How far the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Waiting,
    Thinking,
    Again(Instant),
}

impl SignOfLife {
    pub(crate) fn new(is_shown: bool, columns: Option<usize>) -> Self {
        Self {
            is_shown,
            columns: columns.unwrap_or(COLUMNS),
            drawn: false,
            frame: 0,
            since: Instant::now(),
            asking: None,
            calls: BTreeMap::new(),
            running: Vec::new(),
            servers: BTreeSet::new(),
            starting: None,
        }
    }

    /// Something happened: what is waited for is something else.
    pub(crate) fn event(&mut self, body: &Body) {
        match body {
            Body::ModelRequested(_) => self.asks(Some(Asking::Waiting)),
            Body::AssistantMessage(_) | Body::ContextCompacted(_) => self.asks(None),
            Body::ModelFailed(failed) if failed.class.is_transient() => {
                self.asks(Some(Asking::Again(Instant::now() + Duration::from_millis(failed.delay_ms))));
            }
            Body::ModelFailed(_) => self.asks(None),
            Body::ToolRequested(call) => {
                self.calls.insert(call.call, (call.tool.clone(), call.source.clone()));
            }
            Body::ToolStarted(started) => self.starts(started.call),
            Body::ToolCompleted(done) => self.ends(done.call),
            Body::ToolFailed(failed) => self.ends(failed.call),
            Body::RunFinished(_) | Body::RunErrored(_) | Body::RunCancelled(_) | Body::RunParked(_) => {
                self.running.clear();
                self.asks(None);
            }
            _ => {}
        }
    }

    /// The model thinks, in words that are not shown.
    pub(crate) fn thinks(&mut self) {
        if self.asking != Some(Asking::Thinking) {
            self.asks(Some(Asking::Thinking));
        }
    }

    fn asks(&mut self, asking: Option<Asking>) {
        (self.asking, self.since) = (asking, Instant::now());
    }

    fn starts(&mut self, call: CallId) {
        self.running.push(call);
        self.since = Instant::now();
        if let Some((_, source)) = self.calls.get(&call)
            && source.starts_with("mcp://")
            && self.servers.insert(source.clone())
        {
            self.starting = Some((call, source.clone()));
        }
    }

    fn ends(&mut self, call: CallId) {
        self.calls.remove(&call);
        self.running.retain(|running| *running != call);
        self.starting.take_if(|(starting, _)| *starting == call);
        self.since = Instant::now();
    }

    fn words(&self) -> Option<String> {
        let seconds = self.since.elapsed().as_secs();
        let doing = match (self.running.as_slice(), self.asking) {
            ([], None) => return None,
            ([], Some(Asking::Waiting)) => "waiting for the model".to_owned(),
            ([], Some(Asking::Thinking)) => "thinking…".to_owned(),
            ([], Some(Asking::Again(moment))) => {
                let left = moment.saturating_duration_since(Instant::now()).as_secs() + 1;
                return Some(format!("trying again in {left} s"));
            }
            ([first, others @ ..], _) => {
                let tool = self.calls.get(first).map_or("a tool", |(tool, _)| tool);
                let more =
                    if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
                match &self.starting {
                    Some((_, server)) => format!("starting {server} for {tool}{more}"),
                    None => format!("running {tool}{more}"),
                }
            }
        };
        Some(format!("{doing} · {seconds} s"))
    }

    /// Draws the line anew, if there is something to say.
    pub(crate) fn draw(&mut self) {
        if !self.is_shown || self.since.elapsed() < PATIENCE {
            return;
        }
        let Some(words) = self.words() else { return self.clear() };
        self.frame = (self.frame + 1) % FRAMES.len();
        self.drawn = true;
        let line = format!("{} {}", FRAMES[self.frame], printable(&words));
        let _ = write!(stderr(), "\r\x1b[2K{}", shorten(&line, self.columns.saturating_sub(1)));
    }

    /// Makes room for something else.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }

    /// The servers that were called, for the next turn.
    pub(crate) fn servers(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.servers)
    }

    /// Servers that were called in an earlier turn.
    pub(crate) fn know(&mut self, servers: BTreeSet<String>) {
        self.servers = servers;
    }
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        self.clear();
    }
}
