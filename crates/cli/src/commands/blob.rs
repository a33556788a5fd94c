//! `weir blob put`, `get`, `stat` and `gc`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_blobs::{GetError, Live, Reader, Stored, Sweep, Swept};
use weir_journal::Journal;
use weir_support::new_file::Existing;
use weir_types::{Explain, Fault, Hash};

use crate::args;
use crate::commands::Context;
use crate::input::Input;
use crate::output::Out;
use crate::report::Outcome;
use crate::show::{count, size};
use crate::store;
use crate::target::{Readers, Target};

/// How much of a blob is in memory at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// `weir blob …`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Store content and print its hash.
    Put(PutArgs),
    /// Print the content with a hash, checked before the first byte.
    Get(GetArgs),
    /// Print the sizes of a blob.
    Stat(StatArgs),
    /// Remove blobs that no event refers to.
    Gc(GcArgs),
}

/// The arguments of `weir blob put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir blob put report.pdf\n  tar -c src | weir blob put -")]
pub(crate) struct PutArgs {
    /// The content: a file, or `-` for standard input.
    #[arg(value_name = "FILE|-")]
    input: Input,
}

/// The arguments of `weir blob get`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir blob get HASH > report.pdf\n  weir blob get HASH --output report.pdf"
)]
pub(crate) struct GetArgs {
    /// The blob, as `weir blob put` named it.
    hash: String,
    /// Write to this file instead, complete or not at all; one that is there is replaced.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The arguments of `weir blob stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir blob stat HASH\n  weir blob stat HASH --json")]
pub(crate) struct StatArgs {
    /// The blob, as `weir blob put` named it.
    hash: String,
}

/// The arguments of `weir blob gc`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  weir blob gc --dry-run\n  weir blob gc --grace 7d\n  weir blob gc --offline --grace 0s"
)]
pub(crate) struct GcArgs {
    /// Say what would be removed, and remove nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Keep what was put more recently than this, as its event may be on the way: `90m`, `24h` or `7d`; at least `1h`.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    grace: String,
    /// Make sure that no other process uses the data directory, and keep others waiting: then any `--grace` will do.
    #[arg(long)]
    offline: bool,
}

/// Runs `weir blob …`.
pub(crate) async fn run(command: &Command, context: &mut Context) -> Outcome {
    match command {
        Command::Put(args) => put(args, context).await,
        Command::Get(args) => get(args, context).await,
        Command::Stat(args) => stat(args, context).await,
        Command::Gc(args) => gc(args, context).await,
    }
}

#[derive(Serialize)]
struct View {
    hash: Hash,
    bytes: u64,
    stored_bytes: u64,
}

impl From<Stored> for View {
    fn from(Stored { hash, bytes, stored_bytes }: Stored) -> Self {
        Self { hash, bytes, stored_bytes }
    }
}

async fn put(args: &PutArgs, context: &mut Context) -> Outcome {
    let content = args.input.open(&context.out).await?;
    let blobs = store::blobs_or_new(&context.data_dir).await?;
    let stored = blobs.put(content).await?;
    if context.out.json {
        return context.out.document(&View::from(stored));
    }
    context.out.line(format_args!("{}", stored.hash))
}

async fn get(args: &GetArgs, context: &mut Context) -> Outcome {
    let hash = args::hash(&args.hash)?;
    let blobs = store::blobs(&context.data_dir).await?;
    let mut reader = blobs.get(hash).await?;
    let Some(path) = &args.output else {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = reader.read(&mut chunk).await.map_err(|error| GetError::from_reader(hash, error))?;
            if read == 0 {
                return Ok(());
            }
            context.out.bytes(&chunk[..read])?;
        }
    };
    let bytes = save(reader, hash, path).await?;
    if context.out.json {
        return context.out.document(&Saved { hash, bytes, output: path });
    }
    context.out.note(format_args!("wrote {} to `{}`", size(bytes), path.display()));
    Ok(())
}

#[derive(Serialize)]
struct Saved<'a> {
    hash: Hash,
    bytes: u64,
    output: &'a PathBuf,
}

async fn save(mut reader: Reader, hash: Hash, path: &std::path::Path) -> Outcome<u64> {
    let target = Target::create(path, Existing::Replace, Readers::Usual)?;
    let mut writer = tokio::fs::File::from_std(target.writer()?);
    let (mut chunk, mut bytes) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let read = reader.read(&mut chunk).await.map_err(|error| GetError::from_reader(hash, error))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        writer.write_all(&chunk[..read]).await.map_err(|error| target.unwritable(error))?;
    }
    writer.flush().await.map_err(|error| target.unwritable(error))?;
    target.finish()?;
    Ok(bytes)
}

async fn stat(args: &StatArgs, context: &mut Context) -> Outcome {
    let hash = args::hash(&args.hash)?;
    let blobs = store::blobs(&context.data_dir).await?;
    let stored = blobs.stat(hash).await?.ok_or(GetError::Missing(hash))?;
    if context.out.json {
        return context.out.document(&View::from(stored));
    }
    context.out.line(format_args!("{hash}  {}, stored in {}", size(stored.bytes), size(stored.stored_bytes)))
}

/// A time that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a length of time")]
struct GraceError(String);

impl Explain for GraceError {
    fn code(&self) -> &'static str {
        "cli::time"
    }

    fn help(&self) -> Cow<'static, str> {
        "write a number and a unit: `90s`, `30m`, `24h` or `7d`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

fn parse_grace(text: &str) -> Result<Duration, GraceError> {
    let refuse = || GraceError(text.chars().take(40).collect());
    let unit = text.chars().next_back().ok_or_else(refuse)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(refuse()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| refuse())?;
    Ok(Duration::from_secs(number.checked_mul(seconds).ok_or_else(refuse)?))
}

/// Why nothing is collected.
#[derive(Debug, thiserror::Error)]
enum CollectError {
    /// Too short.
    #[error("`--grace {0}` is less than an hour: an event that needs a new blob may still be on its way")]
    Grace(String),
    /// Somebody else may be writing.
    #[error("another process uses the data directory")]
    InUse,
}

impl Explain for CollectError {
    fn code(&self) -> &'static str {
        match self {
            Self::Grace(_) => "cli::grace",
            Self::InUse => "cli::in-use",
        }
    }

    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Grace(_) => {
                "give it at least `1h`, or stop every other weir process and use `weir blob gc --offline`"
                    .into()
            }
            Self::InUse => "find it with `weir doctor` and stop it, or leave `--offline` out".into(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Grace(_) => Fault::Input,
            Self::InUse => Fault::Conflict,
        }
    }
}

/// A blob is live while an event names it.
struct Referred<'a, J>(&'a J);

impl<J: Journal> Live for Referred<'_, J> {
    fn is_live(&self, hash: Hash) -> BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Ok(self.0.refers_to(hash).await?) })
    }
}

#[derive(Serialize)]
struct GcView {
    dry_run: bool,
    seen: u64,
    live: u64,
    young: u64,
    removed: u64,
    removed_bytes: u64,
    temporary: u64,
}

async fn gc(args: &GcArgs, context: &mut Context) -> Outcome {
    let grace = parse_grace(&args.grace)?;
    if grace < Sweep::GRACE_MIN && !args.offline && !args.dry_run {
        return Err(CollectError::Grace(args.grace.clone()).into());
    }
    let store = context.store().await?;
    if args.offline && !store.journal.hold_alone() {
        store.close().await;
        return Err(CollectError::InUse.into());
    }
    let sweep = Sweep { grace, dry_run: args.dry_run };
    let swept = store.blobs.sweep(&Referred(&store.journal), sweep).await;
    store.close().await;
    print_swept(swept?, args, &mut context.out)
}

fn print_swept(swept: Swept, args: &GcArgs, out: &mut Out) -> Outcome {
    let Swept { seen, live, young, removed, removed_bytes, temporary } = swept;
    if out.json {
        let dry_run = args.dry_run;
        return out.document(&GcView { dry_run, seen, live, young, removed, removed_bytes, temporary });
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    out.line(format_args!("{verb} {} ({})", count(removed, "blob"), size(removed_bytes)))?;
    out.line(format_args!("kept    {live} in use, {young} younger than {}", args.grace))?;
    if temporary > 0 {
        out.line(format_args!("{verb} {} of writers that died", count(temporary, "temporary file")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let seconds = |text: &str| parse_grace(text).ok().map(|grace| grace.as_secs());
        assert_eq!(
            ["0s", "90s", "2m", "24h", "7d"].map(seconds),
            [Some(0), Some(90), Some(120), Some(86_400), Some(604_800)]
        );
        for text in
            ["", "s", "24", "1w", "-1h", "1.5h", "99999999999999999999d", "9999999999999999999d", "1é"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
