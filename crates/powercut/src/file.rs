//! Open files: the functions that SQLite calls to read, write, sync and lock them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use libsqlite3_sys as ffi;

use crate::disk::{Role, Shared};
use crate::locks::{Busy, HandleId, Level, Mode};
use crate::platter::{FileId, SECTOR};
use crate::shm::Mapped;
use crate::vfs::guard;

/// How much room SQLite sets aside for an open file.
pub(crate) const SIZE: c_int = size_of::<OpenFile>() as c_int;

/// An open file as SQLite sees it. It knows the first field, and does not touch the rest.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    handle: *mut Handle,
}

/// An open file as we see it. It keeps the disk's contents alive.
pub(crate) struct Handle {
    disk: Arc<Shared>,
    file: FileId,
    id: HandleId,
    role: Role,
    powersafe: bool,
}

impl Handle {
    pub(crate) fn open(
        disk: Arc<Shared>,
        name: Option<&str>,
        flags: c_int,
        powersafe: bool,
    ) -> Result<Self, c_int> {
        let asked = |flag: c_int| flags & flag != 0;
        let mut state = disk.state();
        let file = match name.and_then(|name| state.platter.find(name)) {
            Some(_) if asked(ffi::SQLITE_OPEN_EXCLUSIVE) => return Err(ffi::SQLITE_CANTOPEN),
            Some(file) => file,
            None if asked(ffi::SQLITE_OPEN_CREATE) => state.platter.create(name),
            None => return Err(ffi::SQLITE_CANTOPEN),
        };
        let id = state.open(file);
        drop(state);
        let role = if asked(ffi::SQLITE_OPEN_MAIN_DB) {
            Role::Database
        } else if asked(ffi::SQLITE_OPEN_WAL) {
            Role::Wal
        } else {
            Role::Other
        };
        Ok(Self { disk, file, id, role, powersafe })
    }
}

/// Turns the memory that SQLite set aside into an open file.
///
/// # Safety
///
/// `file` points to [`SIZE`] writable bytes, aligned for a pointer.
pub(crate) unsafe fn install(file: *mut ffi::sqlite3_file, handle: Handle) {
    let open =
        OpenFile { base: ffi::sqlite3_file { pMethods: &METHODS }, handle: Box::into_raw(Box::new(handle)) };
    // SAFETY: promised by the caller.
    unsafe { file.cast::<OpenFile>().write(open) };
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
///
/// `file` was filled by [`install`] and is not closed while the reference lives.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a Handle {
    // SAFETY: promised by the caller; `handle` points to a box that `close` frees.
    unsafe { &*(*file.cast::<OpenFile>()).handle }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    guard(|| {
        // SAFETY: SQLite closes a file once, and does not use it afterwards; `install` made the box.
        let handle = unsafe { Box::from_raw((*file.cast::<OpenFile>()).handle) };
        handle.disk.state().close(handle.file, handle.id);
        Ok(())
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    guard(|| {
        let (bytes, offset) = (position(i64::from(bytes))?, position(offset)?);
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let state = handle.disk.state();
        let content = state.platter.content(handle.file);
        let available = content.get(offset..).unwrap_or_default();
        let available = &available[..bytes.min(available.len())];
        // SAFETY: `buffer` has room for `bytes` bytes: first the available ones, which are not more, then zeros. It
        // is SQLite's memory, so no part of `content`.
        unsafe {
            ptr::copy_nonoverlapping(available.as_ptr(), buffer.cast(), available.len());
            ptr::write_bytes(buffer.cast::<u8>().add(available.len()), 0, bytes - available.len());
        }
        if available.len() == bytes { Ok(()) } else { Err(ffi::SQLITE_IOERR_SHORT_READ) }
    })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    guard(|| {
        let (bytes, offset) = (position(i64::from(bytes))?, position(offset)?);
        // SAFETY: SQLite passes an open file, and `bytes` bytes that it does not change meanwhile.
        let (handle, data) = unsafe { (handle(file), slice::from_raw_parts(data.cast::<u8>(), bytes)) };
        let outcome = handle.disk.state().write(handle.file, offset, data);
        outcome.map_err(|fault| fault.code(ffi::SQLITE_IOERR_WRITE))
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    guard(|| {
        let size = position(size)?;
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let outcome = handle.disk.state().truncate(handle.file, size);
        outcome.map_err(|fault| fault.code(ffi::SQLITE_IOERR_TRUNCATE))
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let outcome = handle.disk.state().sync(handle.file, handle.role);
        outcome.map_err(|fault| fault.code(ffi::SQLITE_IOERR_FSYNC))
    })
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut ffi::sqlite3_int64) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let bytes = handle.disk.state().platter.content(handle.file).len();
        let bytes = ffi::sqlite3_int64::try_from(bytes).map_err(|_| ffi::SQLITE_IOERR)?;
        // SAFETY: `size` is SQLite's place for the answer.
        unsafe { *size = bytes };
        Ok(())
    })
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let mut state = handle.disk.state();
        let outcome = state.locks.entry(handle.file).or_default().lock(handle.id, lock_level(level)?);
        outcome.map_err(|Busy| ffi::SQLITE_BUSY)
    })
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let mut state = handle.disk.state();
        state.locks.entry(handle.file).or_default().unlock(handle.id, lock_level(level)?);
        Ok(())
    })
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, answer: *mut c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let reserved = handle.disk.state().locks.entry(handle.file).or_default().reserved();
        // SAFETY: `answer` is SQLite's place for the answer.
        unsafe { *answer = c_int::from(reserved) };
        Ok(())
    })
}

unsafe extern "C" fn file_control(_file: *mut ffi::sqlite3_file, _op: c_int, _arg: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    SECTOR as c_int
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes an open file.
    if unsafe { handle(file) }.powersafe { ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let (index, bytes) = (position(i64::from(index))?, position(i64::from(bytes))?);
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let mut state = handle.disk.state();
        let memory = state.shared_memory.entry(handle.file).or_default();
        let address = match memory.map(handle.id, index, bytes, extend != 0) {
            Mapped::At(start) => start.as_ptr().cast(),
            Mapped::Absent => ptr::null_mut(),
            Mapped::OutOfMemory => return Err(ffi::SQLITE_NOMEM),
        };
        // SAFETY: `out` is SQLite's place for the answer.
        unsafe { *out = address };
        Ok(())
    })
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    guard(|| {
        let slots = slot_mask(first, count).ok_or(ffi::SQLITE_IOERR_SHMLOCK)?;
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        let mut state = handle.disk.state();
        let locks = &mut state.shared_memory.entry(handle.file).or_default().locks;
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            locks.unlock(handle.id, slots);
            return Ok(());
        }
        let mode = if flags & ffi::SQLITE_SHM_SHARED != 0 { Mode::Shared } else { Mode::Exclusive };
        locks.lock(handle.id, slots, mode).map_err(|Busy| ffi::SQLITE_BUSY)
    })
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes an open file.
        let handle = unsafe { handle(file) };
        handle.disk.state().leave_shared_memory(handle.file, handle.id);
        Ok(())
    })
}

/// A size or offset from SQLite, which is never negative.
fn position(number: i64) -> Result<usize, c_int> {
    usize::try_from(number).map_err(|_| ffi::SQLITE_IOERR)
}

fn lock_level(level: c_int) -> Result<Level, c_int> {
    match level {
        ffi::SQLITE_LOCK_NONE => Ok(Level::None),
        ffi::SQLITE_LOCK_SHARED => Ok(Level::Shared),
        ffi::SQLITE_LOCK_RESERVED => Ok(Level::Reserved),
        ffi::SQLITE_LOCK_PENDING => Ok(Level::Pending),
        ffi::SQLITE_LOCK_EXCLUSIVE => Ok(Level::Exclusive),
        _ => Err(ffi::SQLITE_IOERR_LOCK),
    }
}

/// The slots `first .. first + count`, of eight, as a bit mask.
fn slot_mask(first: c_int, count: c_int) -> Option<u8> {
    let (first, count) = (u32::try_from(first).ok()?, u32::try_from(count).ok()?);
    if first + count > ffi::SQLITE_SHM_NLOCK as u32 {
        return None;
    }
    u8::try_from(((1_u32 << count) - 1) << first).ok()
}
