//! Cutting streams and taking them up again: the joined stream equals the uncut one, wherever it was cut and however often.

mod killed;
mod told;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use serde_json::json;

use self::told::{complete, told};
use crate::kit::{Frame, Project, Server, within};

const FORMATS: [&str; 4] = ["native", "openai", "anthropic", "vercel"];

/// Positions beside the frames' ends at which a stream is cut.
const CUTS: usize = 200;

/// An agent that thinks, speaks, calls two tools at once, speaks again, calls once more and speaks, all of it slowly.
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

#[tokio::test]
async fn a_run_that_is_over_is_taken_up_wherever_it_was_cut() {
    let server = project().serve().start().await;
    let place = Place::begin(&server, "talker", "talk now").await;
    place.over(&server).await;
    for format in FORMATS {
        let bytes = place.bytes(&server, format).await;
        let whole = told(format, &complete(&bytes));
        let cuts = cuts(bytes.len(), frame_ends(&bytes));
        let checks = cuts.into_iter().map(|cut| {
            let (bytes, whole, place, server) = (&bytes, &whole, &place, &server);
            async move {
                let mut joined = complete(&bytes[..cut]);
                let last = joined.last().map(|frame| frame.id.clone().unwrap());
                joined.extend(place.rest(server, format, last.as_deref()).await);
                assert_eq!(&told(format, &joined), whole, "{format} cut at {cut}, after {last:?}");
            }
        });
        stream::iter(checks).buffer_unordered(32).collect::<()>().await;
    }
}

#[tokio::test]
async fn a_run_that_goes_on_is_taken_up_wherever_it_was_cut() {
    let server = project().serve().start().await;
    // How long the streams are is known from a run that has been.
    let before = Place::begin(&server, "talker", "talk before").await;
    before.over(&server).await;
    let mut plans = Vec::new();
    for format in FORMATS {
        let bytes = before.bytes(&server, format).await;
        plans.extend(cuts(bytes.len(), frame_ends(&bytes)).into_iter().map(|cut| (format, cut)));
    }
    // Formats take turns, so that each of them has clients that come early.
    plans.sort_by_key(|(_, cut)| *cut);
    let place = Place::begin(&server, "talker", "talk now").await;
    let clients: FuturesUnordered<_> = plans
        .iter()
        .map(|(format, cut)| {
            let (place, server) = (&place, &server);
            async move {
                let mut joined = place.cut(server, format, None, *cut).await;
                let last = joined.last().map(|frame| frame.id.clone().unwrap());
                joined.extend(place.rest(server, format, last.as_deref()).await);
                (*format, *cut, joined)
            }
        })
        .collect();
    let joined: Vec<_> = clients.collect().await;
    for format in FORMATS {
        let whole = told(format, &complete(&place.bytes(&server, format).await));
        let of = joined.iter().filter(|(of, ..)| *of == format);
        let mut live = 0;
        for (_, cut, frames) in of {
            assert_eq!(told(format, frames), whole, "{format} cut at {cut}");
            // What is made again comes in large pieces.
            live += usize::from(frames.len() > whole.len() + 5);
        }
        assert!(live > 0, "nobody was there while it was said: {format}");
    }
}
