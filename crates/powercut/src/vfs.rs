//! The VFS: names and files, the clock, and the registration with SQLite.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libsqlite3_sys as ffi;

use crate::disk::Shared;
use crate::file::{self, Handle};
use crate::platter::Directory;

/// Longer than any name that a test has use for; the suffix of a journal included.
const NAME_BYTES_MAX: c_int = 1024;

/// A disk that SQLite can find by name. Dropping it takes the name away.
pub(crate) struct Registration {
    vfs: *mut ffi::sqlite3_vfs,
    name: String,
    disk: Arc<Shared>,
}

// SAFETY: `vfs` is only passed to `sqlite3_vfs_unregister`, which takes SQLite's own mutex.
unsafe impl Send for Registration {}
// SAFETY: as above, and no method reads through `vfs`.
unsafe impl Sync for Registration {}

impl Registration {
    pub(crate) fn new(disk: Arc<Shared>) -> Self {
        static REGISTERED: AtomicU64 = AtomicU64::new(0);
        let name = format!("powercut-{}", REGISTERED.fetch_add(1, Ordering::Relaxed));
        // The three boxes made here, some 300 bytes, are never freed: a connection to `:memory:` holds on to its VFS
        // without any file open, so nobody can know when the last user is gone. The contents hang on the weak
        // reference and are freed.
        let c_name = CString::new(name.as_str()).unwrap_or_default().into_raw();
        let app_data: *mut Weak<Shared> = Box::into_raw(Box::new(Arc::downgrade(&disk)));
        let vfs = Box::into_raw(Box::new(describe(c_name, app_data.cast())));
        // SAFETY: the structure and its name live for ever, and SQLite alone changes it from now on.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite cannot register the VFS `{name}`");
        Self { vfs, name, disk }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn disk(&self) -> &Shared {
        &self.disk
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: `vfs` was registered in `new` and is still valid. SQLite forgets it here; connections that are open
        // keep using the structure, which is not freed.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs) };
    }
}

fn describe(name: *const c_char, app_data: *mut c_void) -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: file::SIZE,
        mxPathname: NAME_BYTES_MAX,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: app_data,
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// Runs the body of a function that SQLite called, and turns its outcome into a result code. A panic must not unwind
/// into C; it becomes `SQLITE_INTERNAL`, after the panic hook has printed it.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ffi::SQLITE_OK,
        Ok(Err(code)) => code,
        Err(_) => ffi::SQLITE_INTERNAL,
    }
}

/// The disk behind a VFS, unless it has been dropped.
///
/// # Safety
///
/// `vfs` is one that [`Registration::new`] made.
unsafe fn disk(vfs: *mut ffi::sqlite3_vfs) -> Result<Arc<Shared>, c_int> {
    // SAFETY: `pAppData` was set to a boxed `Weak<Shared>` that is never freed or changed.
    let disk = unsafe { &*(*vfs).pAppData.cast::<Weak<Shared>>() };
    disk.upgrade().ok_or(ffi::SQLITE_CANTOPEN)
}

/// # Safety
///
/// `name` is a C string.
unsafe fn text(name: *const c_char) -> String {
    // SAFETY: passed on to the caller.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: `file` points to `szOsFile` bytes for this function to fill. Without methods SQLite does not close
        // a file that failed to open.
        unsafe { (*file).pMethods = ptr::null() };
        let asked = |flag: c_int| flags & flag != 0;
        // SAFETY: SQLite passes a VFS that it got from `Registration::new`.
        let disk = unsafe { disk(vfs) }?;
        // A file to be deleted on close never needs a name: nobody else opens it, and no power cut keeps it.
        let named = !name.is_null() && !asked(ffi::SQLITE_OPEN_DELETEONCLOSE);
        // SAFETY: a name that is not null is a C string.
        let text = named.then(|| unsafe { text(name) });
        // SAFETY: with this flag the name carries URI parameters behind it, as `sqlite3_uri_boolean` needs.
        let powersafe = !asked(ffi::SQLITE_OPEN_URI)
            || unsafe { ffi::sqlite3_uri_boolean(name, c"psow".as_ptr(), 1) } != 0;

        let handle = Handle::open(disk, text.as_deref(), flags, powersafe)?;
        // SAFETY: `file` has room for the file that `szOsFile` announced; `out_flags` may be null.
        unsafe {
            file::install(file, handle);
            if !out_flags.is_null() {
                *out_flags = flags;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes a VFS that it got from `Registration::new`, and a C string.
        let (disk, name) = unsafe { (disk(vfs)?, text(name)) };
        let mut state = disk.state();
        if state.platter.find(&name).is_none() {
            return Err(ffi::SQLITE_IOERR_DELETE_NOENT);
        }
        let directory = if sync_directory == 0 { Directory::Pending } else { Directory::Synced };
        state.delete(&name, directory).map_err(|fault| fault.code(ffi::SQLITE_IOERR_DELETE))
    })
}

/// All files that exist may be read and written, so the question is always whether the file exists.
unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _question: c_int,
    answer: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes a VFS that it got from `Registration::new`, and a C string.
        let (disk, name) = unsafe { (disk(vfs)?, text(name)) };
        let exists = disk.state().platter.find(&name).is_some();
        // SAFETY: `answer` is SQLite's place for the answer.
        unsafe { *answer = c_int::from(exists) };
        Ok(())
    })
}

/// There are no directories: a name is its own full path.
unsafe extern "C" fn full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    out_bytes: c_int,
    out: *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
        if usize::try_from(out_bytes).is_ok_and(|room| name.len() <= room) {
            // SAFETY: `out` has `out_bytes` of room, at least as many as are copied, and is not part of `name`.
            unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
            Ok(())
        } else {
            Err(ffi::SQLITE_CANTOPEN)
        }
    })
}

/// Extensions cannot be loaded through this VFS.
unsafe extern "C" fn dl_open(_vfs: *mut ffi::sqlite3_vfs, _name: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

unsafe extern "C" fn dl_error(_vfs: *mut ffi::sqlite3_vfs, out_bytes: c_int, out: *mut c_char) {
    if out_bytes > 0 {
        // SAFETY: `out` has room for at least one byte: the end of an empty message.
        unsafe { *out = 0 };
    }
}

/// SQLite seeds its generator from the default VFS; whoever asks this one gets zeros, the same in every run.
unsafe extern "C" fn randomness(_vfs: *mut ffi::sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: `out` has room for `bytes` bytes.
    unsafe { ptr::write_bytes(out, 0, usize::try_from(bytes).unwrap_or(0)) };
    bytes
}

unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    std::thread::sleep(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)));
    microseconds
}

/// Milliseconds since noon in Greenwich on November 24, 4714 B.C., as SQLite counts.
fn julian_milliseconds() -> i64 {
    const UNIX_EPOCH_JULIAN: i64 = 210_866_760_000_000;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH_JULIAN.saturating_add(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

unsafe extern "C" fn current_time_int64(_vfs: *mut ffi::sqlite3_vfs, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: `out` is SQLite's place for the answer.
    unsafe { *out = julian_milliseconds() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: `out` is SQLite's place for the answer.
    unsafe { *out = julian_milliseconds() as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn get_last_error(_vfs: *mut ffi::sqlite3_vfs, _bytes: c_int, _out: *mut c_char) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, OpenFlags};

    use super::*;

    #[test]
    fn the_contents_go_with_the_last_of_disk_and_connections() {
        let registration = Registration::new(Arc::new(Shared::default()));
        let contents = Arc::downgrade(&registration.disk);
        let db =
            Connection::open_with_flags_and_vfs("a.db", OpenFlags::default(), registration.name()).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        drop(registration);
        db.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        assert!(contents.upgrade().is_some());
        drop(db);
        assert!(contents.upgrade().is_none());
    }

    #[test]
    fn a_panic_becomes_an_error_of_sqlite() {
        assert_eq!(guard(|| panic!("this panic is part of the test")), ffi::SQLITE_INTERNAL);
        assert_eq!(guard(|| Err(ffi::SQLITE_BUSY)), ffi::SQLITE_BUSY);
        assert_eq!(guard(|| Ok(())), ffi::SQLITE_OK);
    }
}
