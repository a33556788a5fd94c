//! Cutting streams and taking them up again: the joined stream equals the uncut one, wherever it was cut and however often.

mod killed;
pub(crate) mod told;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, FuturesUnordered};
use serde_json::json;

pub(crate) use self::told::delta;
use self::told::{complete, is_gone, takes_back, told};
use crate::kit::{Frame, Project, Server, within};

pub(crate) const FORMATS: [&str; 4] = ["native", "openai", "anthropic", "vercel"];

/// Positions beside the frames' ends at which a stream is cut.
const CUTS: usize = 200;

/// How often more than needed something is said to clients that come too late.
const RUNS_MORE: usize = 5;

/// Clients of one run that are cut off at once.
const CLIENTS_MAX: usize = 2_500;

/// An agent that thinks, speaks, calls two tools at once, breaks off in the middle of a thought, begins again, calls once more and speaks,
/// all of it slowly.
const TALKER: &[(&str, &str)] = &[
    (
        "agents/talker/spec.yaml",
        "name: talker\nmodel: scripted/talker\ndescription: You talk.\ntools:\n  - { name: tools/weather, access: read }\nacl: [{ principal: \"group:staff\", role: execute }]\n",
    ),
    (
        "models/talker.yaml",
        r#"replies:
  - when: { user: '^talk (\w+)' }
    think: "First I think about what to say — näive ✓ 🜂 as it is — and how."
    say: "I will look twice, once here and once there; it takes a while."
    call: [{ tool: weather, input: { city: "Oslo" } }, { tool: weather, input: { city: "Atlantis" } }]
    delay: 50ms
    chunk: 3
  - when: { tool: weather, failed: true }
    think: "An idea — née ✗ 🜄 — that attempt {{attempt}} never thinks to its end."
    say: "Nobody keeps this: attempt {{attempt}} breaks off hér€."
    error: overloaded
    times: 1
    delay: 50ms
    chunk: 5
  - when: { tool: weather, failed: true }
    say: "There is nothing there: {{result}}\n"
    call: [{ tool: weather, input: { city: "Rome" } }]
    delay: 50ms
    chunk: 5
  - when: { tool: weather }
    think: "Now I know 🜁 enough."
    say: "In {{result.city}} it is {{result.temp}}. That is all, in “quotes” and\nover two lines."
    delay: 50ms
    chunk: 2
"#,
    ),
];

fn project() -> Project {
    let project = Project::new();
    for (name, text) in TALKER {
        project.write(name, text);
    }
    project.build();
    project
}

/// Where the stream of a run is.
struct Place {
    session: String,
    run: String,
}

impl Place {
    /// A run that has just begun.
    async fn begin(server: &Server, agent: &str, message: &str) -> Self {
        let frames =
            server.stream(&format!("/agents/{agent}/chat/stream"), &json!({ "message": message })).await;
        assert_eq!(frames.status, 200);
        let header = |name: &str| frames.header(name).unwrap().to_owned();
        Self { session: header("x-weir-session"), run: header("x-weir-run") }
    }

    fn path(&self, format: &str) -> String {
        format!("/sessions/{}/runs/{}/stream?format={format}", self.session, self.run)
    }

    /// The whole stream of a run that is over, as it is sent.
    async fn bytes(&self, server: &Server, format: &str) -> Vec<u8> {
        let answer = server.get(&self.path(format)).await;
        assert_eq!(answer.status, 200);
        answer.body.to_vec()
    }

    /// Waits for its end.
    async fn over(&self, server: &Server) {
        let frames = server.follow(&self.path("native"), None).await.all().await;
        assert_eq!(frames.last().unwrap().event.as_deref(), Some("end"));
    }

    /// What comes after a frame.
    async fn rest(&self, server: &Server, format: &str, last: Option<&str>) -> Vec<Frame> {
        let frames = server.follow(&self.path(format), last).await;
        assert!([200, 204].contains(&frames.status.as_u16()), "{format} after {last:?}: {}", frames.status);
        frames.all().await
    }

    /// What a client has in the end that has this much and comes back; from the start, when it is told that what it has is gone.
    async fn joined(&self, server: &Server, format: &'static str, frames: Vec<Frame>) -> Joined {
        let mut joined = Joined { format, frames, given_up: Vec::new() };
        loop {
            let last = joined.frames.last().map(|frame| frame.id.clone().unwrap());
            joined.frames.extend(self.rest(server, format, last.as_deref()).await);
            let is_gone = joined.frames.last().is_some_and(|frame| is_gone(format, frame));
            if !is_gone {
                return joined;
            }
            joined.given_up.push(std::mem::take(&mut joined.frames));
        }
    }

    /// Follows it, and cuts the connection after so many bytes; what came of it until then.
    async fn cut(&self, server: &Server, format: &str, last: Option<&str>, after: usize) -> Vec<Frame> {
        let mut request = server.client.get(server.url(&self.path(format)));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = within("headers", request.send()).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let (mut bytes, mut body) = (Vec::new(), response.bytes_stream());
        while bytes.len() < after
            && let Some(more) = within("bytes", body.next()).await
        {
            bytes.extend_from_slice(&more.unwrap());
        }
        bytes.truncate(after);
        complete(&bytes)
    }
}

/// What a client has put together.
struct Joined {
    format: &'static str,
    frames: Vec<Frame>,
    /// Streams that ended because an attempt was gone.
    given_up: Vec<Vec<Frame>>,
}

impl Joined {
    /// Checks it against the stream as it is once the run is over, and against one that nobody cut.
    fn check(&self, whole: &[String], uncut: &Self, context: &str) {
        let format = self.format;
        assert_eq!(told(format, &self.frames), whole, "{format} {context}");
        assert!(self.given_up.len() <= 1, "{format} {context}");
        let said = |frames: &[Frame]| told(format, &frames[..frames.len() - 1]).concat();
        for (frames, uncut) in self.given_up.iter().zip(&uncut.given_up) {
            assert!(said(uncut).starts_with(&said(frames)), "{format} {context}: {frames:?}");
        }
    }

    /// Whether it was told to forget something.
    fn was_taken_back(&self) -> bool {
        !self.given_up.is_empty() || self.frames.iter().any(|frame| takes_back(self.format, frame))
    }
}

/// The ends of all frames, and seeded positions between them; every position when there is time.
fn cuts(length: usize, ends: impl Iterator<Item = usize>) -> Vec<usize> {
    if std::env::var_os("WEIR_SOAK").is_some_and(|value| value == "1") {
        return (0..=length).collect();
    }
    let mut seed = 0x5eed_u64;
    let random = std::iter::repeat_with(move || {
        // A linear congruential generator is random enough, and the same everywhere.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % (length + 1)
    });
    let mut cuts: Vec<usize> = ends.chain(random.take(CUTS)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn frame_ends(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    bytes.windows(2).enumerate().filter(|(_, pair)| pair == b"\n\n").map(|(at, _)| at + 2)
}

/// The streams of a run in all formats, as they come to somebody who is there from its start and is never cut off.
async fn uncut(server: &Server, place: &Place) -> Vec<Vec<u8>> {
    let streams = FORMATS.map(|format| async move { place.bytes(server, format).await });
    let streams = within("the run's end", join_all(streams)).await;
    for (format, bytes) in FORMATS.iter().zip(&streams) {
        // It is worth cutting: it has all that a stream can have, and an attempt that was taken back as well.
        let frames = complete(bytes);
        let taken_back = frames.iter().any(|frame| takes_back(format, frame) || is_gone(format, frame));
        let text: String = frames.iter().filter_map(|frame| Some(delta(format, frame)?.1)).collect();
        assert!(taken_back, "{format}: {text}");
        for word in ["🜂", "I will look twice", "née", "breaks off hér€"] {
            assert!(text.contains(word), "{format}: {text}");
        }
    }
    streams
}

#[tokio::test]
async fn a_run_that_is_over_is_taken_up_wherever_it_was_cut() {
    let server = project().serve().start().await;
    let place = Place::begin(&server, "talker", "talk now").await;
    let live = uncut(&server, &place).await;
    place.over(&server).await;
    for (format, live) in FORMATS.into_iter().zip(live) {
        let again = place.bytes(&server, format).await;
        let whole = told(format, &complete(&again));
        for word in ["🜂", "née", "breaks off", "There is nothing there", "two lines"] {
            // An attempt that was given up is no part of what is told of a run that is over.
            let is_there = whole.iter().any(|told| told.contains(word));
            assert_eq!(is_there, !["née", "breaks off"].contains(&word), "{format} {word}: {whole:?}");
        }
        // The stream as it came while the run was going on, and as it is made again.
        for bytes in [live, again] {
            let uncut = place.joined(&server, format, complete(&bytes)).await;
            let cuts = cuts(bytes.len(), frame_ends(&bytes));
            let checks = cuts.into_iter().map(|cut| {
                let (bytes, whole, uncut, place, server) = (&bytes, &whole, &uncut, &place, &server);
                async move {
                    let joined = place.joined(server, format, complete(&bytes[..cut])).await;
                    joined.check(whole, uncut, &format!("cut at {cut}"));
                }
            });
            stream::iter(checks).buffer_unordered(32).collect::<()>().await;
        }
    }
}

#[tokio::test]
async fn a_run_that_goes_on_is_taken_up_wherever_it_was_cut() {
    let server = project().serve().start().await;
    // How long the streams are is known from a run that has been.
    let before = Place::begin(&server, "talker", "talk before").await;
    let mut plans = Vec::new();
    for (format, bytes) in FORMATS.into_iter().zip(uncut(&server, &before).await) {
        plans.extend(cuts(bytes.len(), frame_ends(&bytes)).into_iter().map(|cut| (format, cut)));
    }
    // Formats take turns, so that each of them has clients that come early; and so do runs, where one is not enough.
    plans.sort_by_key(|(_, cut)| *cut);
    let runs = plans.len().div_ceil(CLIENTS_MAX);
    let (mut live, mut taken_back) = ([0; 4], [0; 4]);
    let were_all_there =
        |live: &[usize], taken_back: &[usize]| live.iter().chain(taken_back).all(|count| *count > 0);
    let mut run = 0;
    // Who comes while it is said is up to the scheduler: it is said again, if nobody did.
    while run < runs || (run < runs + RUNS_MORE && !were_all_there(&live, &taken_back)) {
        let place = Place::begin(&server, "talker", "talk now").await;
        let clients = plans.iter().skip(run % runs).step_by(runs).map(|&(format, cut)| {
            let (place, server) = (&place, &server);
            async move {
                let frames = place.cut(server, format, None, cut).await;
                (cut, place.joined(server, format, frames).await)
            }
        });
        let uncut = uncut(&server, &place);
        let (uncut, joined) =
            tokio::join!(uncut, clients.collect::<FuturesUnordered<_>>().collect::<Vec<_>>());
        for (at, format) in FORMATS.into_iter().enumerate() {
            let whole = told(format, &complete(&place.bytes(&server, format).await));
            let uncut = place.joined(&server, format, complete(&uncut[at])).await;
            for (cut, joined) in joined.iter().filter(|(_, joined)| joined.format == format) {
                joined.check(&whole, &uncut, &format!("cut at {cut}"));
                // What is made again comes in large pieces.
                live[at] += usize::from(joined.frames.len() > whole.len() + 5);
                taken_back[at] += usize::from(joined.was_taken_back());
            }
        }
        run += 1;
    }
    for (at, format) in FORMATS.into_iter().enumerate() {
        assert!(live[at] > 0 && taken_back[at] > 0, "nobody was there while it was said: {format}");
    }
}
