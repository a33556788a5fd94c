//! Processes whose clocks are days off, on one data directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::weir::{Ran, Weir};

/// Loaded before the C library, it moves the wall clock of one process.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    const char *seconds = getenv("WEIR_TEST_CLOCK_SHIFT");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

const DAYS: [i64; 3] = [-2, 0, 2];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Builds the library; whoever can build weir has a C compiler.
fn library(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("shift.c"), directory.join("shift.so"));
    std::fs::write(&source, SHIFT).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

struct Shifted {
    weir: Weir,
    library: PathBuf,
}

impl Shifted {
    fn new() -> Self {
        let weir = Weir::new();
        let library = library(weir.path());
        Self { weir, library }
    }

    /// Runs a command whose clock is so many days off.
    fn run(&self, days: i64, args: &[&str], stdin: &Path) -> Ran {
        let mut command = self.weir.command();
        command.args(args).env("LD_PRELOAD", &self.library);
        command.env("WEIR_TEST_CLOCK_SHIFT", (days * DAY.as_secs() as i64).to_string());
        Ran::from(command.stdin(Stdio::from(std::fs::File::open(stdin).unwrap())).output().unwrap())
    }

    fn json(&self, days: i64, args: &[&str]) -> serde_json::Value {
        let ran = self.run(days, &[args, &["--json"]].concat(), Path::new("/dev/null"));
        assert_eq!(ran.code, 0, "{ran}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn put(&self, days: i64, content: &str) -> PathBuf {
        self.weir.write("content", content);
        let ran = self.run(days, &["blob", "put", "-"], &self.weir.path().join("content"));
        assert_eq!(ran.code, 0, "{ran}");
        let hash = ran.stdout.trim_end();
        self.weir.data().join("blobs").join(&hash[..2]).join(&hash[2..])
    }
}

/// The clock is really moved: without this, the tests below would show nothing.
#[test]
fn the_clock_of_a_process_is_shifted() {
    let shifted = Shifted::new();
    for days in DAYS {
        let stream = format!("on{}", days + 2);
        shifted.json(days, &["append", "--stream", &stream, "--kind", "a.b"]);
        let line = shifted.weir.ok(&["cat", "--stream", &stream, "--json"]);
        let event: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        let written: jiff::Timestamp = event["ts"].as_str().unwrap().parse().unwrap();
        let off = written.as_second() - jiff::Timestamp::now().as_second() - days * DAY.as_secs() as i64;
        assert!(off.abs() < 60 * 60, "{days}: {written}");
    }
}

/// With default options, and the shortest grace that is taken: neither the clock of who puts nor that of who collects counts.
#[test]
fn the_collector_goes_by_the_clock_of_the_file_system() {
    let shifted = Shifted::new();
    shifted.json(0, &["append", "--stream", "notes", "--kind", "a.b"]);
    let collect = |days: i64, grace: &str| {
        let swept = shifted.json(days, &["blob", "gc", "--grace", grace]);
        (swept["young"].as_u64().unwrap(), swept["removed"].as_u64().unwrap())
    };
    for (n, put_on) in (0..).zip(DAYS) {
        shifted.put(put_on, &format!("put {put_on} days off"));
        // What is there already is refreshed, also when the clock says that this was long ago.
        shifted.put(put_on, "again");
        for collected_on in DAYS {
            for grace in ["24h", "1h"] {
                assert_eq!(
                    collect(collected_on, grace),
                    (n + 2, 0),
                    "put {put_on}, collected {collected_on}"
                );
            }
        }
    }
    // What is old is garbage, whatever the clock says.
    for days in DAYS {
        let old = shifted.put(days, "old");
        let two_days_ago = SystemTime::now() - 2 * DAY;
        std::fs::File::open(&old).unwrap().set_modified(two_days_ago).unwrap();
        assert_eq!(collect(days, "24h"), (4, 1), "{days}");
        assert!(!old.exists());
    }
}

/// The grace has a floor, in every unit, and only a data directory that is held alone goes below it.
#[test]
fn a_grace_below_the_floor_is_refused() {
    let shifted = Shifted::new();
    let blob = shifted.put(0, "on its way");
    shifted.json(0, &["append", "--stream", "notes", "--kind", "a.b"]);
    for grace in ["0s", "1s", "3599s", "59m", "0h", "0d"] {
        assert_eq!(
            shifted.weir.error(&["blob", "gc", "--grace", grace]),
            (2, "cli::grace".to_owned()),
            "{grace}"
        );
    }
    for grace in ["3600s", "60m", "1h", "1d"] {
        shifted.weir.ok(&["blob", "gc", "--grace", grace]);
        assert!(blob.exists(), "{grace}");
    }
    shifted.weir.ok(&["blob", "gc", "--grace", "0s", "--offline"]);
    assert!(!blob.exists());
}
