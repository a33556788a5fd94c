//! Trains dictionary 1, which the SQLite journal embeds and compresses every record with.
//!
//! A trained dictionary is for ever: journals are full of records that only it can read. So the files are committed,
//! training refuses to replace them unless told to, and `--check` compares them with the hash recorded beside them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use zstd::bulk::Compressor;

use crate::{Outcome, samples};

/// With at most this much dictionary zstd chooses its parameters for small inputs (a finer hash table, matches of five
/// bytes), with more those for large ones. When this was chosen, twice the dictionary made events that are like the corpus 5 % smaller, and
/// all others 7 to 12 % larger, than this.
const BYTES_MAX: usize = 16 * 1024 - 513;

/// What the adapter compresses with.
const LEVEL: i32 = 1;

/// The seed of the committed corpus, and one for events that are not in it.
const SEED: u64 = 1;
const SEED_HELD_OUT: u64 = 2;

/// What `cargo xtask dictionary` is asked to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only compare the committed dictionary with the recorded hash, and report how well it does
    #[arg(long)]
    check: bool,
    /// Replace a dictionary that is there already; only ever before the first release
    #[arg(long, conflicts_with = "check")]
    replace: bool,
}

pub(crate) fn run(root: &Path, args: &Args) -> Outcome {
    let place = place(root);
    if !args.check {
        if place.join("1.zdict").exists() && !args.replace {
            return Err("dictionary 1 exists, and records written with it need it for ever; \
                        `--check` looks at it, `--replace` trains it anew"
                .into());
        }
        write_files(&place)?;
    }
    let dictionary = committed(&place)?;
    println!("1.zdict: {} bytes, SHA-256 {}", dictionary.len(), hex(&Sha256::digest(&dictionary)));
    report(root, &place, &dictionary)
}

fn place(root: &Path) -> PathBuf {
    root.join("crates/journal-sqlite/dictionary")
}

fn write_files(place: &Path) -> Outcome {
    fs::create_dir_all(place)?;
    let corpus = samples::corpus(SEED);
    fs::write(place.join("samples.jsonl"), &corpus)?;
    let dictionary = train(&records(&corpus)?)?;
    fs::write(place.join("1.sha256"), hex(&Sha256::digest(&dictionary)) + "  1.zdict\n")?;
    fs::write(place.join("1.zdict"), dictionary)?;
    Ok(())
}

/// The dictionary, if it is the one whose hash was recorded when it was trained.
fn committed(place: &Path) -> Outcome<Vec<u8>> {
    let dictionary = fs::read(place.join("1.zdict"))?;
    let (hash, recorded) = (hex(&Sha256::digest(&dictionary)), fs::read_to_string(place.join("1.sha256"))?);
    if recorded.split_whitespace().next() != Some(hash.as_str()) {
        return Err(
            format!("1.zdict has the hash {hash}, but 1.sha256 records another: restore the file").into()
        );
    }
    Ok(dictionary)
}

fn train(records: &[Vec<u8>]) -> Outcome<Vec<u8>> {
    let records: Vec<Vec<u8>> = records.iter().map(|record| without_noise(record)).collect();
    let mut dictionary = zstd::dict::from_samples(&records, BYTES_MAX)?;
    // Bytes 4 to 8 are the id that every frame repeats. The trainer's is random and takes four bytes of each frame; ours
    // is the dictionary's number and takes one.
    dictionary.get_mut(4..8).ok_or("the trainer made no dictionary")?.copy_from_slice(&1_u32.to_le_bytes());
    Ok(dictionary)
}

/// Ids, hashes and signatures are different in every event: a dictionary can know how they start, and the rest of them
/// would only take up its room.
fn without_noise(record: &[u8]) -> Vec<u8> {
    const LENGTH_MIN: usize = 16;
    const START: usize = 4;
    let mut kept = Vec::with_capacity(record.len());
    for run in record.chunk_by(|a, b| a.is_ascii_alphanumeric() == b.is_ascii_alphanumeric()) {
        let is_noise = run.len() >= LENGTH_MIN && run.iter().any(u8::is_ascii_digit);
        kept.extend_from_slice(if is_noise { &run[..START] } else { run });
    }
    kept
}

#[derive(Deserialize)]
struct Sample<'a> {
    #[serde(borrow)]
    meta: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// The lines of a corpus as the adapter sees them.
fn records(corpus: &str) -> Outcome<Vec<Vec<u8>>> {
    corpus
        .lines()
        .map(|line| -> Outcome<_> {
            let sample: Sample<'_> = serde_json::from_str(line)?;
            Ok(record(sample.meta.get(), sample.payload.get()))
        })
        .collect()
}

/// The plain form of an event's record, without refs: `varint(meta length × 2) ‖ meta ‖ varint(0) ‖ payload`.
fn record(meta: &str, payload: &str) -> Vec<u8> {
    let mut record = Vec::with_capacity(meta.len() + payload.len() + 4);
    let mut length = meta.len() * 2;
    while length >= 0x80 {
        record.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    record.push(length as u8);
    record.extend(meta.as_bytes());
    record.push(0);
    record.extend(payload.as_bytes());
    record
}

/// Prints how much smaller records become, on what it was trained on and on what it was not.
fn report(root: &Path, place: &Path, dictionary: &[u8]) -> Outcome {
    let corpus = fs::read_to_string(place.join("samples.jsonl"))?;
    println!("{:<44} {:>7} {:>9} {:>8} {:>8}", "records", "count", "bytes", "alone", "with it");
    for (name, records) in [
        ("the corpus", records(&corpus)?),
        ("held out: other events of the same kinds", records(&samples::corpus(SEED_HELD_OUT))?),
        ("held out: this repository's files, 1 KB each", repository_records(root)?),
    ] {
        let bytes: usize = records.iter().map(Vec::len).sum();
        let ratio = |compressor: Compressor<'_>| -> Outcome<f64> {
            Ok(bytes as f64 / compressed(compressor, &records)? as f64)
        };
        let (alone, with) =
            (ratio(Compressor::new(LEVEL)?)?, ratio(Compressor::with_dictionary(LEVEL, dictionary)?)?);
        println!("{name:<44} {:>7} {bytes:>9} {alone:>7.2}× {with:>7.2}×", records.len());
    }
    Ok(())
}

fn compressed(mut compressor: Compressor<'_>, records: &[Vec<u8>]) -> Outcome<usize> {
    let mut bytes = 0;
    for record in records {
        bytes += compressor.compress(record)?.len();
    }
    Ok(bytes)
}

/// Real text that no one wrote for the corpus: pieces of our sources and documents, as a tool would return them.
fn repository_records(root: &Path) -> Outcome<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for folder in ["crates", "docs"] {
        collect(&root.join(folder), &["rs", "md", "toml"], &mut files)?;
    }
    let mut records = Vec::new();
    for file in files {
        let mut piece = String::new();
        for line in fs::read_to_string(file)?.lines() {
            piece.push_str(line);
            piece.push('\n');
            if piece.len() >= 1_000 {
                let text = serde_json::Value::from(std::mem::take(&mut piece));
                records.push(record("{}", &format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)));
            }
        }
    }
    Ok(records)
}

/// Files under `folder` with one of these extensions, in order of their names.
fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Outcome {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            collect(&entry, extensions, files)?;
        } else if entry
            .extension()
            .is_some_and(|extension| extensions.iter().any(|known| extension == *known))
        {
            files.push(entry);
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_twice_the_length_of_meta_then_meta_then_no_refs_then_the_payload() {
        assert_eq!(record("{}", "[]"), b"\x04{}\0[]");
        let long = format!("{{{}}}", " ".repeat(298));
        assert_eq!(record(&long, "1"), [&[0xD8, 0x04], long.as_bytes(), b"\x001"].concat());
    }

    #[test]
    fn records_keep_the_bytes_of_a_line() {
        let line = r#"{"kind":"a.b","meta":{"x": 1},"payload":{"z":1.50,"a":[ ]}}"#;
        assert_eq!(records(line).unwrap(), [b"\x10{\"x\": 1}\0{\"z\":1.50,\"a\":[ ]}".to_vec()]);
    }

    #[test]
    fn noise_is_cut_and_words_are_not() {
        let record = br#"{"run":"01KD361SKKVF360R5TTERES7FY","trace":"00-faf2e3ab602eaf41eb3564fad0b66f47-01","incomprehensibilities":2026}"#;
        let expected = br#"{"run":"01KD","trace":"00-faf2-01","incomprehensibilities":2026}"#;
        assert_eq!(without_noise(record), expected);
    }

    #[test]
    fn the_committed_dictionary_is_the_one_that_was_recorded() {
        let place = place(&crate::root());
        let dictionary = committed(&place).unwrap();
        let samples = fs::read_to_string(place.join("samples.jsonl")).unwrap();
        assert_eq!(dictionary[4..8], 1_u32.to_le_bytes());
        assert!(records(&samples).unwrap().len() >= 600);
    }

    #[test]
    fn a_trained_dictionary_is_number_one_and_reads_what_it_wrote() {
        let records = records(&samples::corpus(SEED)).unwrap();
        let dictionary = train(&records).unwrap();
        assert!(dictionary.len() <= BYTES_MAX);
        assert_eq!(dictionary[4..8], 1_u32.to_le_bytes());
        let small = Compressor::with_dictionary(LEVEL, &dictionary).unwrap().compress(&records[0]).unwrap();
        assert_eq!(zstd::zstd_safe::get_dict_id_from_frame(&small).map(|id| id.get()), Some(1));
        let mut reader = zstd::bulk::Decompressor::with_dictionary(&dictionary).unwrap();
        assert_eq!(reader.decompress(&small, 1 << 20).unwrap(), records[0]);
    }
}
