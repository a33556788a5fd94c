//! What the gate takes: a built-in that does next to nothing, called through it and called as the function it is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use weir_bench::Error;
use weir_bench::findings::Round;
use weir_tools::Done;
use weir_types::Json;

use crate::project::Project;
use crate::times::{Times, Until};

/// Calls in a row: few, so that both see the same machine, and enough that neither finds cold caches every time.
const BATCH: usize = 64;

pub(crate) async fn measure(project: &Project, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let (mut through, mut bare) = (Times::new(), Times::new());
    let (input, until) = (Json::empty_object(), Until::after(duration));
    while !until.is_over(&through) {
        for _ in 0..BATCH {
            let began = Instant::now();
            black_box(project.call("get_time", &input).await?);
            through.push(began.elapsed());
        }
        for _ in 0..BATCH {
            let began = Instant::now();
            black_box(Done::text(weir_journal::now().to_string()));
            bare.push(began.elapsed());
        }
    }
    found.insert("dispatch_through_us", through.p50() * 1e6);
    found.insert("dispatch_through_p99_us", through.p99() * 1e6);
    found.insert("dispatch_bare_us", bare.p50() * 1e6);
    found.insert("dispatch_beyond_us", (through.p50() - bare.p50()) * 1e6);
    Ok(())
}
