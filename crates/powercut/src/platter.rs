//! The state of the disk: for each file and each name, what the process sees and what has become durable.
//!
//! No faults are known here. A power cut is a clone of the whole platter, which is cheap, as contents are shared: the
//! process goes on with one of the two, the image is made from the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fault::Loss;
use crate::image::{Chance, Content, Image};

/// The unit in which a disk writes: a write may be torn at multiples of it, never inside.
pub(crate) const SECTOR: usize = 512;

/// Identifies a file, whatever name it has, for as long as anything refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

#[derive(Clone, Default)]
pub(crate) struct Platter {
    files: BTreeMap<FileId, File>,
    names: BTreeMap<String, Name>,
    files_made: u64,
}

#[derive(Clone, Default)]
struct File {
    /// What the process reads.
    seen: Content,
    /// What the last sync left.
    durable: Content,
    /// The changes since then, oldest first.
    pending: Vec<Change>,
    handles: usize,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, data: Arc<[u8]> },
    Truncate { size: usize },
}

/// An entry of the directory: which file a name stands for, if any.
#[derive(Clone, Default)]
struct Name {
    durable: Option<FileId>,
    /// The unsynced creations and deletions since then, oldest first.
    pending: Vec<Option<FileId>>,
}

impl Platter {
    pub(crate) fn from_image(image: &Image) -> Self {
        let mut platter = Self::default();
        for (name, content) in &image.files {
            let file = File { seen: content.clone(), durable: content.clone(), ..File::default() };
            let id = platter.add(file);
            platter.names.insert(name.clone(), Name { durable: Some(id), pending: Vec::new() });
        }
        platter
    }

    pub(crate) fn find(&self, name: &str) -> Option<FileId> {
        self.names.get(name)?.seen()
    }

    /// Makes an empty file. Without a name it is gone when its last handle is closed.
    pub(crate) fn create(&mut self, name: Option<&str>) -> FileId {
        let id = self.add(File::default());
        if let Some(name) = name {
            self.names.entry(name.to_owned()).or_default().pending.push(Some(id));
        }
        id
    }

    /// Keeps a file alive until [`Platter::close`], even without a name.
    pub(crate) fn open(&mut self, id: FileId) {
        self.file(id).handles += 1;
    }

    pub(crate) fn close(&mut self, id: FileId) {
        let file = self.file(id);
        file.handles = file.handles.saturating_sub(1);
        self.forget_unreachable();
    }

    pub(crate) fn content(&self, id: FileId) -> &[u8] {
        self.files.get(&id).map_or(&[], |file| file.seen.as_slice())
    }

    pub(crate) fn write(&mut self, id: FileId, offset: usize, data: &[u8]) {
        self.file(id).change(Change::Write { offset, data: data.into() });
    }

    pub(crate) fn truncate(&mut self, id: FileId, size: usize) {
        self.file(id).change(Change::Truncate { size });
    }

    /// Makes a file's changes durable. If it is new, the directory is synced too, and with it every name.
    pub(crate) fn sync(&mut self, id: FileId) {
        let file = self.file(id);
        if !file.pending.is_empty() {
            let durable = Arc::make_mut(&mut file.durable);
            file.pending.drain(..).for_each(|change| change.apply(durable));
        }
        if self.names.values().any(|name| name.seen() == Some(id) && name.durable != Some(id)) {
            self.sync_directory();
        }
    }

    /// A sync that failed: the process goes on reading the changes, but no later sync will store them.
    pub(crate) fn drop_pending(&mut self, id: FileId) {
        self.file(id).pending.clear();
    }

    pub(crate) fn delete(&mut self, name: &str, directory: Directory) {
        let Some(entry) = self.names.get_mut(name) else { return };
        entry.pending.push(None);
        match directory {
            Directory::Synced => self.sync_directory(),
            Directory::Pending => self.forget_unreachable(),
        }
    }

    pub(crate) fn image(&self, loss: Loss) -> Image {
        let mut chance = match loss {
            Loss::Random { seed } => Chance::new(seed),
            Loss::Everything | Loss::Nothing => Chance::new(0),
        };
        let mut files = BTreeMap::new();
        for (text, name) in &self.names {
            let id = match loss {
                Loss::Everything => name.durable,
                Loss::Nothing => name.seen(),
                Loss::Random { .. } => name.after_cut(&mut chance),
            };
            let Some(file) = id.and_then(|id| self.files.get(&id)) else { continue };
            let content = match loss {
                Loss::Everything => file.durable.clone(),
                Loss::Nothing => file.seen.clone(),
                Loss::Random { .. } => file.after_cut(&mut chance),
            };
            files.insert(text.clone(), content);
        }
        Image { files }
    }

    fn sync_directory(&mut self) {
        self.names.values_mut().for_each(Name::settle);
        self.forget_unreachable();
    }

    fn add(&mut self, file: File) -> FileId {
        let id = FileId(self.files_made);
        self.files_made += 1;
        self.files.insert(id, file);
        id
    }

    // INVARIANT: an id is only used between `open` and `close`, while its file exists; a new one here would be a
    // harmless stray.
    fn file(&mut self, id: FileId) -> &mut File {
        self.files.entry(id).or_default()
    }

    /// Drops what neither a handle, nor a name, nor a name that a power cut may bring back refers to.
    fn forget_unreachable(&mut self) {
        self.names.retain(|_, name| name.durable.is_some() || !name.pending.is_empty());
        let names = &self.names;
        self.files.retain(|id, file| file.handles > 0 || names.values().any(|name| name.may_become(*id)));
    }
}

/// Whether the directory was synced after one of its names was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    Synced,
    Pending,
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(Arc::make_mut(&mut self.seen));
        self.pending.push(change);
    }

    fn after_cut(&self, chance: &mut Chance) -> Content {
        if self.pending.is_empty() {
            return self.durable.clone();
        }
        let mut content = Vec::clone(&self.durable);
        for change in &self.pending {
            change.apply_in_part(&mut content, chance);
        }
        Arc::new(content)
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(content, *offset, data),
            Self::Truncate { size } => content.resize(*size, 0),
        }
    }

    fn apply_in_part(&self, content: &mut Vec<u8>, chance: &mut Chance) {
        match self {
            Self::Write { offset, data } => {
                let mut offset = *offset;
                let mut rest = &data[..];
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(rest.len().min(SECTOR - offset % SECTOR));
                    if chance.keeps() {
                        put(content, offset, piece);
                    }
                    offset += piece.len();
                    rest = after;
                }
                // The size is not part of the data: a file may have grown to zeros whose contents never came.
                if offset > content.len() && chance.keeps() {
                    content.resize(offset, 0);
                }
            }
            Self::Truncate { .. } => {
                if chance.keeps() {
                    self.apply(content);
                }
            }
        }
    }
}

impl Name {
    fn seen(&self) -> Option<FileId> {
        self.pending.last().copied().unwrap_or(self.durable)
    }

    fn settle(&mut self) {
        self.durable = self.seen();
        self.pending.clear();
    }

    fn may_become(&self, id: FileId) -> bool {
        self.durable == Some(id) || self.pending.contains(&Some(id))
    }

    fn after_cut(&self, chance: &mut Chance) -> Option<FileId> {
        self.pending.iter().fold(self.durable, |before, after| if chance.keeps() { *after } else { before })
    }
}

/// Writes into a file; what lies between its old end and `offset` reads as zeros.
fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if content.len() < offset {
        content.resize(offset, 0);
    }
    // What lies behind the end is appended, not filled with zeros first: without optimisation that takes far longer.
    let (over, behind) = data.split_at(data.len().min(content.len() - offset));
    content[offset..offset + over.len()].copy_from_slice(over);
    content.extend_from_slice(behind);
}

#[cfg(test)]
mod tests;
