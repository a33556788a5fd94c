//! How long until the first word: through the engine, and in a bare call of the same adapter to the same provider.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use weir_engine::{Address, Update};
use weir_journal::{Journal, NewEvent, Part};
use weir_models::{Endpoint, HttpClient, Model, Piece, connect};
use weir_types::{Block, BranchId, Catalog, Message, Purpose, Request, Role, Seq, Wire};

use crate::stub;
use crate::world::{World, say};
use weir_bench::Error;
use weir_bench::findings::Round;

pub(crate) async fn measure(data: &Path, duration: Duration, found: &mut Round) -> Result<(), Error> {
    let url = stub::start().await?;
    let (_, mut card) = Catalog::default().find("scripted/bench")?;
    (card.wire, card.api_name, card.base_url) = (Wire::OpenaiChat, None, Some(url));
    let endpoint = Endpoint::of(&card, "local/bench", None);
    let model = connect(&card, "local/bench", endpoint, &HttpClient::new())?;
    let world = World::new(data, Arc::clone(&model), 200_000).await?;
    let (mut through, mut bare, mut sync) = (Vec::new(), Vec::new(), Vec::new());
    bare_call(&*model).await?;
    let began = Instant::now();
    while began.elapsed() < duration || through.len() < 5 {
        through.push(engine_call(&world).await?);
        bare.push(bare_call(&*model).await?);
        sync.push(lone_append(&world).await?);
    }
    let [through, bare, sync] = [through, bare, sync].map(median);
    found.insert("first_token_engine_ms", through * 1e3);
    found.insert("first_token_bare_ms", bare * 1e3);
    found.insert("first_token_sync_ms", sync * 1e3);
    found.insert("first_token_ratio", (through - sync) / bare);
    world.remove().await
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

async fn engine_call(world: &World) -> Result<f64, Error> {
    let address: Address = world.engine.new_address();
    let mut updates = world.engine.watch(&address, Seq(0));
    let began = Instant::now();
    say(&world.engine, &address, 0).await?;
    loop {
        match updates.next().await? {
            Some(Update::Delta(_)) => break,
            Some(Update::Event(_)) => {}
            None => return Err("the session ended without a word".into()),
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    world.engine.settle(&address).await?;
    Ok(elapsed)
}

async fn bare_call(model: &dyn Model) -> Result<f64, Error> {
    let text = "Question 0: what time is it now, in the harbour?";
    let request = Request {
        model: "bench".to_owned(),
        system: "You tell the time.".to_owned(),
        tools: Vec::new(),
        messages: vec![Message { role: Role::User, content: vec![Block::text(text)] }],
        output_tokens_max: 1_000,
        purpose: Purpose::Turn,
    };
    let began = Instant::now();
    let mut pieces = model.stream(model.encode(&request)?, 1);
    let mut first = None;
    while let Some(piece) = pieces.next().await {
        if let Piece::Delta(_) = piece? {
            first.get_or_insert_with(|| began.elapsed().as_secs_f64());
        }
    }
    first.ok_or_else(|| "the model said nothing".into())
}

/// The one sync that stands before the call: what an append of the same journal takes at this moment.
async fn lone_append(world: &World) -> Result<f64, Error> {
    let branch = BranchId::main("bench:sync".parse()?);
    let event = NewEvent::new("note.made".parse()?, r#"{"of":"a sync"}"#);
    let began = Instant::now();
    world.journal.append(vec![Part::new(branch, vec![event])]).await?;
    Ok(began.elapsed().as_secs_f64())
}
