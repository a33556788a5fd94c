//! Looks for damage in the write-ahead log before SQLite recovers it.
//!
//! SQLite takes the first frame that does not fit for the end of the log. That is right for a torn tail and wrong for a
//! damaged log: what was committed behind a flipped bit disappears without a word. The difference can be seen, because
//! every commit is synced before the next transaction begins. The rule is in docs/adr/0016-trust.md:
//!
//! - A frame whose checksum continues that of an intact *commit* frame was written after that commit was durable. If the
//!   commit lies behind the place where recovery stops, an acknowledged transaction is lost: that is damage.
//! - A torn tail, the rest of a transaction that failed, and frames of an earlier round of the log never look like that.
//! - A header that does not fit is damage if the frames behind it hold pages that differ from those of the file.
//!
//! Nothing here changes a file.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

/// Damage in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDamage {
    /// The header cannot be read, and the log holds pages that the file does not have.
    Header {
        /// Transactions in the log that recovery would drop.
        transactions: u64,
    },
    /// Recovery would stop at a frame that transactions follow.
    Frame {
        /// The frame, counted from 1.
        frame: u64,
        /// Where it begins in the log.
        offset: u64,
        /// Complete transactions behind it, at least.
        transactions: u64,
    },
}

/// What is in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogInspection {
    /// Bytes of the log up to the last transaction that recovery finds; 0 if it finds none.
    pub recovered_bytes: u64,
    /// Pages of the database after that transaction.
    pub pages: Option<u32>,
    /// The pages that recovery finds in the log.
    pub found: std::collections::BTreeSet<u32>,
    /// The damage.
    pub damage: Option<LogDamage>,
}

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

type Checksum = (u32, u32);
type Salts = [u8; 8];

/// The byte order of the checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Continues a checksum over more bytes; their number is a multiple of 8.
fn checksum(order: Order, (mut a, mut b): Checksum, bytes: &[u8]) -> Checksum {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let four = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            match order {
                Order::Little => u32::from_le_bytes(four),
                Order::Big => u32::from_be_bytes(four),
            }
        };
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    (a, b)
}

fn is_page_size(size: u32) -> bool {
    size.is_power_of_two() && (512..=65_536).contains(&size)
}

/// The header of a log, if SQLite would accept it.
struct Header {
    order: Order,
    page_size: u32,
    salts: Salts,
    checksum: Checksum,
}

impl Header {
    fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let order = match number(bytes, 0) {
            MAGIC => Order::Little,
            magic if magic == MAGIC | 1 => Order::Big,
            _ => return None,
        };
        let page_size = number(bytes, 8);
        let stored = (number(bytes, 24), number(bytes, 28));
        let fits = number(bytes, 4) == VERSION
            && is_page_size(page_size)
            && checksum(order, (0, 0), &bytes[..24]) == stored;
        let salts = bytes[16..24].try_into().ok()?;
        fits.then_some(Self { order, page_size, salts, checksum: stored })
    }
}

/// One frame: a page, and what its header says.
struct Frame {
    head: [u8; FRAME_HEADER],
    page: Vec<u8>,
}

impl Frame {
    /// Reads the next frame; false at the end of the log, where a part of one may be left.
    fn read(&mut self, log: &mut impl Read) -> io::Result<bool> {
        Ok(fill(log, &mut self.head)? && fill(log, &mut self.page)?)
    }

    fn page_number(&self) -> u32 {
        number(&self.head, 0)
    }

    /// Pages of the database after this commit; 0 in a frame that ends no transaction.
    fn commits(&self) -> u32 {
        number(&self.head, 4)
    }

    fn has_salts(&self, salts: Salts) -> bool {
        self.head[8..16] == salts
    }

    fn stored(&self) -> Checksum {
        (number(&self.head, 16), number(&self.head, 20))
    }

    fn computed(&self, order: Order, before: Checksum) -> Checksum {
        checksum(order, checksum(order, before, &self.head[..8]), &self.page)
    }

    fn continues(&self, order: Order, before: Checksum) -> bool {
        self.computed(order, before) == self.stored()
    }
}

/// Reads exactly as many bytes as there is room for; false if there are fewer.
fn fill(source: &mut impl Read, room: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(room) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Looks through the log of a database. Both are read from their beginning; `database` only if the log's header is
/// damaged.
///
/// # Errors
/// When one of them cannot be read.
pub fn inspect_log(
    log: &mut (impl Read + Seek),
    database: &mut (impl Read + Seek),
) -> io::Result<LogInspection> {
    let mut bytes = [0; HEADER];
    log.seek(SeekFrom::Start(0))?;
    if !fill(log, &mut bytes)? {
        return Ok(LogInspection::default());
    }
    match Header::parse(&bytes) {
        Some(header) => walk(log, &header),
        None => {
            let damage = without_header(log, &bytes, database)?;
            Ok(LogInspection { damage, ..LogInspection::default() })
        }
    }
}

/// The frame before the one that is looked at, behind the place where recovery stops.
struct Before {
    stored: Checksum,
    /// What the checksum of the first bad frame should be, if its own is wrong.
    computed: Option<Checksum>,
    is_commit: bool,
    /// Its checksum fits. Without that its mark of a commit counts for nothing: a write over an older frame may have
    /// been torn in the middle of its header.
    is_verified: bool,
    page: u32,
}

/// Goes through the frames as SQLite's recovery does, and looks behind the place where that stops.
fn walk(log: &mut impl Read, header: &Header) -> io::Result<LogInspection> {
    let &Header { order, page_size, salts, checksum: mut running } = header;
    let frame_bytes = u64::from(page_size) + FRAME_HEADER as u64;
    let mut frame = Frame { head: [0; FRAME_HEADER], page: vec![0; page_size as usize] };
    let mut found = LogInspection::default();
    let mut pending = Vec::new();
    let mut number = 0;
    let mut before = None;
    while before.is_none() && frame.read(log)? {
        number += 1;
        let computed = frame.computed(order, running);
        if !frame.has_salts(salts) || frame.page_number() == 0 || computed != frame.stored() {
            before = Some(Before { computed: Some(computed), ..Before::of(&frame, false) });
            break;
        }
        running = computed;
        pending.push(frame.page_number());
        if frame.commits() != 0 {
            found.found.extend(pending.drain(..));
            found.pages = Some(frame.commits());
            found.recovered_bytes = HEADER as u64 + number * frame_bytes;
        }
    }
    let Some(before) = before else { return Ok(found) };
    if let Some(transactions) = lost_behind(log, frame, order, salts, before)? {
        let offset = HEADER as u64 + (number - 1) * frame_bytes;
        found.damage = Some(LogDamage::Frame { frame: number, offset, transactions });
    }
    Ok(found)
}

impl Before {
    fn of(frame: &Frame, is_verified: bool) -> Self {
        let (is_commit, page) = (frame.commits() != 0, frame.page_number());
        Self { stored: frame.stored(), computed: None, is_commit, is_verified, page }
    }
}

/// How many transactions lie behind the first bad frame; `None` if that is a torn end, as far as the log can tell.
fn lost_behind(
    log: &mut impl Read,
    mut frame: Frame,
    order: Order,
    salts: Salts,
    mut before: Before,
) -> io::Result<Option<u64>> {
    let (mut transactions, mut is_lost) = (0, false);
    while frame.read(log)? {
        let is_ours = frame.has_salts(salts) && frame.page_number() != 0;
        let follows_stored = is_ours && frame.continues(order, before.stored);
        let follows_computed =
            is_ours && before.computed.is_some_and(|computed| frame.continues(order, computed));
        let follows_commit = before.is_commit && (follows_computed || (follows_stored && before.is_verified));
        // The same commit frame again is padding to a whole sector.
        let is_padding = frame.commits() != 0 && frame.page_number() == before.page;
        is_lost |= follows_commit && !is_padding;
        let follows = follows_stored || follows_computed;
        transactions += u64::from(follows && frame.commits() != 0);
        before = Before::of(&frame, follows);
    }
    Ok(is_lost.then_some(transactions.max(1)))
}

/// Whether a log whose header does not fit holds anything that the file does not have. A header is written, and synced,
/// only when everything in the log is in the file; so one that was not written to its end loses nothing.
fn without_header(
    log: &mut (impl Read + Seek),
    header: &[u8; HEADER],
    database: &mut (impl Read + Seek),
) -> io::Result<Option<LogDamage>> {
    let mut start = [0; 100];
    database.seek(SeekFrom::Start(0))?;
    let own_size = if fill(database, &mut start)? { page_size_of(&start) } else { None };
    let Some(page_size) = own_size.or(Some(number(header, 8)).filter(|size| is_page_size(*size))) else {
        return Ok(None);
    };
    for order in [Order::Little, Order::Big] {
        log.seek(SeekFrom::Start(HEADER as u64))?;
        let (pages, transactions) = committed(log, header, order, page_size)?;
        for (page, content) in pages {
            if !has_page(database, page, &content)? {
                return Ok(Some(LogDamage::Header { transactions }));
            }
        }
    }
    Ok(None)
}

/// The newest content of every page that transactions at the beginning of the log hold, and how many there are.
fn committed(
    log: &mut impl Read,
    header: &[u8; HEADER],
    order: Order,
    page_size: u32,
) -> io::Result<(BTreeMap<u32, Vec<u8>>, u64)> {
    let mut frame = Frame { head: [0; FRAME_HEADER], page: vec![0; page_size as usize] };
    let (mut pages, mut pending, mut transactions) = (BTreeMap::new(), Vec::new(), 0);
    let mut before = vec![(number(header, 24), number(header, 28)), checksum(order, (0, 0), &header[..24])];
    let mut salts: Option<Salts> = None;
    // The checksum of the first frame cannot be told if that of the header is damaged; then the second one vouches for it.
    let mut is_vouched = false;
    while frame.read(log)? {
        let follows = before.iter().any(|checksum| frame.continues(order, *checksum));
        let is_first = salts.is_none();
        let expected = *salts.get_or_insert_with(|| frame.head[8..16].try_into().unwrap_or_default());
        if frame.page_number() == 0 || !frame.has_salts(expected) || (!follows && !is_first) {
            break;
        }
        is_vouched |= follows;
        pending.push((frame.page_number(), frame.page.clone()));
        if frame.commits() != 0 {
            pages.extend(pending.drain(..));
            transactions += 1;
        }
        before = vec![frame.stored()];
    }
    Ok(if is_vouched { (pages, transactions) } else { (BTreeMap::new(), 0) })
}

fn has_page(database: &mut (impl Read + Seek), page: u32, content: &[u8]) -> io::Result<bool> {
    database.seek(SeekFrom::Start(u64::from(page.saturating_sub(1)) * content.len() as u64))?;
    let mut found = vec![0; content.len()];
    Ok(fill(database, &mut found)? && found == content)
}

/// The page size that the header of a database names.
pub(crate) fn page_size_of(start: &[u8]) -> Option<u32> {
    let size = match u16::from_be_bytes([*start.get(16)?, *start.get(17)?]) {
        1 => 65_536,
        size => u32::from(size),
    };
    is_page_size(size).then_some(size)
}
