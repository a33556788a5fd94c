//! The dictionaries records are compressed with. Dictionary 1 is embedded; each file also stores those it uses, by
//! hash, so that a file can be read by a binary that embeds another one.

use std::collections::HashMap;
use std::sync::LazyLock;

use rusqlite::{Connection, params};
use weir_types::Hash;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::CParameter;

/// The dictionary that new records are compressed with.
pub(crate) const CURRENT: i64 = 1;

/// Trained by `cargo xtask dictionary` on the sample events beside it; never at run time.
static BYTES: &[u8] = include_bytes!("../dictionary/1.zdict");

/// Fast, and with a dictionary close to the ratio of slower levels at this size.
const LEVEL: i32 = 1;

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(BYTES, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(BYTES));

/// A compressor for new records.
pub(crate) fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::with_prepared_dictionary(&ENCODER)?;
    // The row says which dictionary; four bytes per record are worth saving.
    compressor.set_parameter(CParameter::DictIdFlag(false))?;
    Ok(compressor)
}

/// Stores dictionary 1 in a file that does not have it.
pub(crate) fn store(connection: &Connection) -> rusqlite::Result<()> {
    let hash = Hash::of(BYTES);
    connection.execute(
        "INSERT INTO dictionaries (no, hash, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![CURRENT, hash.as_bytes(), BYTES],
    )?;
    Ok(())
}

/// What a file says about one of its dictionaries.
pub(crate) struct StoredDictionary {
    pub(crate) no: i64,
    /// The stored bytes are those that the stored hash names.
    pub(crate) is_sound: bool,
}

/// Checks every dictionary a file stores.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<Vec<StoredDictionary>> {
    let mut statement = connection.prepare("SELECT no, hash, bytes FROM dictionaries ORDER BY no")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let (hash, bytes) = (row.get_ref(1)?.as_bytes()?, row.get_ref(2)?.as_bytes()?);
        let named = Hash::of(bytes);
        let expected = if no == CURRENT { Hash::of(BYTES) } else { named };
        found.push(StoredDictionary { no, is_sound: hash == named.as_bytes() && named == expected });
    }
    if !found.iter().any(|dictionary| dictionary.no == CURRENT) {
        found.push(StoredDictionary { no: CURRENT, is_sound: false });
    }
    Ok(found)
}

/// Decompressors by dictionary number, for one reader.
pub(crate) struct Dictionaries(HashMap<i64, Decompressor<'static>>);

impl Dictionaries {
    /// Only what this binary embeds.
    pub(crate) fn embedded() -> std::io::Result<Self> {
        Ok(Self(HashMap::from([(CURRENT, Decompressor::with_prepared_dictionary(&DECODER)?)])))
    }

    /// Adds what else the file stores undamaged. The embedded one is never replaced: it is known to be right.
    pub(crate) fn load(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare("SELECT no, hash, bytes FROM dictionaries WHERE no <> ?1")?;
        let mut rows = statement.query([CURRENT])?;
        while let Some(row) = rows.next()? {
            let (hash, bytes) = (row.get_ref(1)?.as_bytes()?, row.get_ref(2)?.as_bytes()?);
            if Hash::of(bytes).as_bytes() == hash
                && let Ok(decompressor) = Decompressor::with_dictionary(bytes)
            {
                self.0.insert(row.get(0)?, decompressor);
            }
        }
        Ok(())
    }

    /// The decompressor for records of this form.
    pub(crate) fn decompressor(&mut self, no: i64) -> Result<&mut Decompressor<'static>, String> {
        self.0.get_mut(&no).ok_or_else(|| format!("it needs dictionary {no}, which is missing or damaged"))
    }
}
