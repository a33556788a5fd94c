//! Calls over one connection to an MCP server: one alone, ninety-nine at once with and without a slow one among them, and a
//! hundred in flight for a while.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use weir_bench::Error;
use weir_bench::findings::Round;
use weir_types::Json;

use crate::project::Project;
use crate::times::{Times, Until};

/// Calls at once, the slow one included.
const CALLS: usize = 100;

pub(crate) async fn measure(project: &Project, duration: Duration, found: &mut Round) -> Result<(), Error> {
    call(project, "quick", 0).await?; // Connects.
    let mut lone = Times::new();
    let until = Until::after(duration / 3);
    while !until.is_over(&lone) {
        lone.push(call(project, "quick", 0).await?);
    }
    let [mut without, mut beside, mut slow] = [const { Times::new() }; 3];
    let until = Until::after(duration);
    while !until.is_over(&beside) {
        without.push(quick_ones(project).await?);
        let (quick, slow_one) = tokio::try_join!(after(project), call(project, "slow", 0))?;
        beside.push(quick);
        slow.push(slow_one);
    }
    let [lone, without, beside, slow] = [&mut lone, &mut without, &mut beside, &mut slow].map(Times::p50);
    found.insert("server_lone_us", lone * 1e6);
    found.insert("server_99_ms", without * 1e3);
    found.insert("server_99_beside_slow_ms", beside * 1e3);
    found.insert("server_slow_ms", slow * 1e3);
    found.insert("server_99_beside_slow_to_without", beside / without);
    found.insert("server_99_beside_slow_to_lone", beside / lone);
    found.insert("server_99_beside_slow_to_one_by_one", beside / lone / (CALLS - 1) as f64);
    found.insert("server_99_beside_slow_to_slow", beside / slow);
    found.insert("server_calls_per_second", in_flight(project, duration / 3).await?);
    Ok(())
}

/// The quick ones, once the slow one has had the time to be sent: it stands in front of all of them.
async fn after(project: &Project) -> Result<Duration, Error> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    quick_ones(project).await
}

async fn quick_ones(project: &Project) -> Result<Duration, Error> {
    let began = Instant::now();
    try_join_all((1..CALLS).map(|n| call(project, "quick", n))).await?;
    Ok(began.elapsed())
}

async fn call(project: &Project, tool: &str, n: usize) -> Result<Duration, Error> {
    let input = Json::parse(&format!(r#"{{"n":{n}}}"#))?;
    let began = Instant::now();
    let done = project.call(tool, &input).await?;
    let took = began.elapsed();
    if done.words() == tool { Ok(took) } else { Err(format!("`{tool}` answered {}", done.words()).into()) }
}

/// Calls per second, a hundred at any time.
async fn in_flight(project: &Project, duration: Duration) -> Result<f64, Error> {
    let began = Instant::now();
    let caller = |n: usize| async move {
        let mut calls = 0_u32;
        while began.elapsed() < duration {
            call(project, "quick", n).await?;
            calls += 1;
        }
        Ok::<_, Error>(calls)
    };
    let calls: u32 = try_join_all((0..CALLS).map(caller)).await?.into_iter().sum();
    Ok(f64::from(calls) / began.elapsed().as_secs_f64())
}
