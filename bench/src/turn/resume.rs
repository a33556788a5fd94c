//! What it takes to take up a session: rows read, for a short one and for a very long one.

use std::path::Path;

use weir_journal::Journal;
use weir_types::Seq;

use crate::world::{World, turn};
use weir_bench::Error;
use weir_bench::findings::Round;

pub(crate) async fn measure(data: &Path, events: u64, found: &mut Round) -> Result<(), Error> {
    // A small window keeps the conversation short, as summaries do in a long one.
    let world = World::scripted(data, 8_000).await?;
    let short = world.engine.new_address();
    let long = world.engine.new_address();
    for (address, events) in [(&short, 100), (&long, events)] {
        let mut n = 0;
        while n == 0 || head(&world, address).await? < Seq(events) {
            turn(&world.engine, address, n).await?;
            n += 1;
        }
    }
    let (short_reads, _) = reads(&world, &short).await?;
    let (long_reads, tail) = reads(&world, &long).await?;
    found.insert("resume_short_events", head(&world, &short).await?.0 as f64);
    found.insert("resume_short_reads", short_reads);
    found.insert("resume_long_events", head(&world, &long).await?.0 as f64);
    found.insert("resume_long_reads", long_reads);
    found.insert("resume_long_tail", tail);
    found.insert("resume_long_reads_beyond_short_and_tail", (long_reads - short_reads - tail).max(0.0));
    world.remove().await
}

async fn head(world: &World, address: &weir_engine::Address) -> Result<Seq, Error> {
    Ok(world.journal.head(&address.branch_id()).await?.map_or(Seq(0), |head| head.seq))
}

/// Rows read to fold the session in a new engine, and how many events follow its newest snapshot.
async fn reads(world: &World, address: &weir_engine::Address) -> Result<(f64, f64), Error> {
    let fold = weir_journal::FoldVersion { fold: "session".to_owned(), version: weir_kernel::FOLD_VERSION };
    let snapshot = world.journal.snapshot(&address.branch_id(), &fold).await?;
    let tail = head(world, address).await?.0 - snapshot.map_or(0, |snapshot| snapshot.seq.0);
    let engine = world.restarted().await?;
    let before = world.journal.stats().reads;
    engine.state(address, None).await?;
    let reads = world.journal.stats().reads - before;
    engine.stop(std::time::Duration::from_secs(10)).await;
    Ok((reads as f64, tail as f64))
}
