//! The catalogue of what the kernel has to give. For each resource, one process and several try to take much more than the limit,
//! and so do two groups of processes for each pair of resources; a soak tries all numbers of processes and all pairs. They cap
//! themselves, so that a limit that does not hold is seen here and not by the machine.

use libc::*;
use weir_tools::{End, Limits, Stop};

use super::{DEADLINE, Lab, is_running, marker};

const MIB: u64 = 1024 * 1024;

/// How many processes try at once, in the second round.
const PROCESSES: u64 = 8;

/// What becomes of those who try.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// All of it is killed, for this reason.
    Stopped(Stop),
    /// No process gets more than so many.
    AtMost(u64),
}

/// One thing to take.
struct Resource {
    name: &'static str,
    /// Perl that takes `$n` of it, which are `much` divided by the number of processes, and counts them in `$taken`.
    take: String,
    much: u64,
    limits: Limits,
    fate: Fate,
}

/// Limits that a few processes of Perl keep, and that what they try exceeds.
fn small(processes: u64) -> Limits {
    Limits {
        tasks: 60,
        memory_bytes: (40 + 12 * processes) * MIB,
        mappings: 20_000,
        open_files: 400,
        open_files_all: 300,
        disk_bytes: 20 * MIB,
        disk_entries: 1000,
        ..Limits::default()
    }
}

fn stopped(name: &'static str, much: u64, stop: Stop, take: &str) -> Resource {
    Resource { name, take: take.to_owned(), much, limits: small(1), fate: Fate::Stopped(stop) }
}

/// A system call that a command does not have at all: these arguments would be right.
fn refused(name: &'static str, call: c_long, arguments: &str) -> Resource {
    let take = format!("$r = syscall({call}{arguments}); $taken++ if $r >= 0;");
    Resource { name, take, much: PROCESSES, limits: small(1), fate: Fate::AtMost(0) }
}

fn at_most(name: &'static str, most: u64, much: u64, take: &str) -> Resource {
    Resource { name, take: take.to_owned(), much, limits: small(1), fate: Fate::AtMost(most) }
}

/// Everything that is counted and bounded.
fn counted() -> Vec<Resource> {
    let mapping = format!("$a = syscall({SYS_mmap}, 0, $size, $protection, 0x4022, -1, 0); $a > 0 or die;");
    let descriptor = |call: c_long, arguments: &str| {
        format!("for (1..$n) {{ syscall({call}{arguments}) >= 0 or last; $taken++ }}")
    };
    let fill = "$h->blocking(0); 1 while syswrite($h, $b);";
    vec![
        stopped("anonymous memory", 300 * MIB, Stop::Memory, "$x = \"x\" x $n; $taken = $n;"),
        stopped(
            "page tables",
            // All of them read as much as one can: one page in each two megabytes, all of which is the same page of zeros.
            PROCESSES * 15 * 512,
            Stop::Memory,
            &format!(
                "$n = 15 * 1024; $size = $n << 20; $protection = 1; {mapping} \
                 for ($i = 0; $i < $n; $i += 2) {{ unpack(\"P1\", pack(\"J\", $a + ($i << 20))); $taken++ }}"
            ),
        ),
        stopped(
            "mappings",
            60_000,
            Stop::Memory,
            &format!(
                "$size = $n * 4096; $protection = 0; {mapping} \
                 for ($i = 0; $i < $n; $i += 2) {{ syscall({SYS_mprotect}, $a + $i * 4096, 4096, 1) == 0 and $taken += 2 }}"
            ),
        ),
        stopped(
            "pipes",
            500,
            Stop::OpenFiles,
            &format!(
                "$b = \"x\" x 4096; for (1..$n / 2) {{ pipe(my $r, my $h) or last; {fill} push @k, $r, $h; $taken++ }}"
            ),
        ),
        stopped(
            "socket pairs",
            500,
            Stop::OpenFiles,
            &format!(
                "$b = \"x\" x 200_000; for (1..$n / 2) {{ socketpair(my $r, my $h, AF_UNIX, SOCK_STREAM, 0) or last; {fill} push @k, $r, $h; $taken++ }}"
            ),
        ),
        stopped(
            "socket pairs of messages",
            500,
            Stop::OpenFiles,
            &format!(
                "$b = \"x\" x 100_000; for (1..$n / 2) {{ socketpair(my $r, my $h, AF_UNIX, SOCK_SEQPACKET, 0) or last; {fill} push @k, $r, $h; $taken++ }}"
            ),
        ),
        stopped("eventfd", 500, Stop::OpenFiles, &descriptor(SYS_eventfd2, ", 0, 0")),
        stopped("timerfd", 500, Stop::OpenFiles, &descriptor(SYS_timerfd_create, ", 1, 0")),
        stopped("epoll", 500, Stop::OpenFiles, &descriptor(SYS_epoll_create1, ", 0")),
        stopped(
            "open files",
            500,
            Stop::OpenFiles,
            "for (1..$n) { open(my $h, \"<\", \"/dev/null\") or last; push @k, $h; $taken++ }",
        ),
        stopped(
            "processes",
            120,
            Stop::Tasks,
            "for (1..$n) { $p = fork; defined $p or last; $p or sleep 1000; $taken++ }",
        ),
        // Those of Perl have an interpreter each.
        Resource {
            limits: Limits { memory_bytes: 2048 * MIB, ..small(1) },
            ..stopped(
                "threads",
                120,
                Stop::Tasks,
                "for (1..$n) { threads->create(sub { sleep 1000 }) or last; $taken++ }",
            )
        },
        stopped(
            "files",
            40 * MIB,
            Stop::Disk,
            "open(F, \">\", \"$ENV{TMPDIR}/$$\"); $m = \"x\" x MIB; for (1..$n / MIB) { syswrite(F, $m) or last; $taken++ }",
        ),
        stopped(
            "shared memory",
            40 * MIB,
            Stop::Disk,
            "open(F, \">\", \"/dev/shm/$$\"); $m = \"x\" x MIB; for (1..$n / MIB) { syswrite(F, $m) or last; $taken++ }",
        ),
        stopped(
            "inodes",
            3000,
            Stop::Disk,
            "for (1..$n) { open(F, \">\", \"$ENV{HOME}/$$.$_\") or last; $taken++ }",
        ),
        stopped("directories", 3000, Stop::Disk, "for (1..$n) { mkdir \"d$$.$_\" or last; $taken++ }"),
        stopped(
            "links",
            3000,
            Stop::Disk,
            "open(F, \">\", \"f$$\"); for (1..$n) { link \"f$$\", \"l$$.$_\" or last; $taken++ }",
        ),
    ]
}

/// Everything that a command does not get, or not more of than the kernel's own limit.
fn withheld() -> Vec<Resource> {
    let zeros = "$z = \"\\0\" x 4096;";
    let with_zeros = |name, call: c_long, arguments: &str| {
        let refused = refused(name, call, arguments);
        Resource { take: format!("{zeros} {}", refused.take), ..refused }
    };
    // A socket pair, one end of which is sent through another pair and closed. A pair that is full is kept, and another one made.
    let in_flight = format!(
        "sub carrier {{ socketpair(C, D, AF_UNIX, SOCK_STREAM, 0) or die; D->blocking(0); open(my $c, \"<&\", \\*C); push @k, $c }} carrier(); \
         $b = \"x\"; $v = pack(\"JJ\", unpack(\"J\", pack(\"p\", $b)), 1); \
         for (1..$n) {{ socketpair(my $s, my $t, AF_UNIX, SOCK_STREAM, 0) or last; $c = pack(\"JiiJ\", 20, 1, 1, fileno($s)); \
         $h = pack(\"JJJJJJJ\", 0, 0, unpack(\"J\", pack(\"p\", $v)), 1, unpack(\"J\", pack(\"p\", $c)), 20, 0); \
         if (syscall({SYS_sendmsg}, fileno(D), $h, 0) >= 0) {{ $taken++ }} elsif ($! == 11) {{ carrier() }} else {{ last }} }}"
    );
    vec![
        at_most("sockets on their way", 450, 4000, &in_flight),
        at_most(
            "larger socket buffers",
            0,
            PROCESSES,
            "socketpair($r, $h, AF_UNIX, SOCK_STREAM, 0); $old = getsockopt($h, SOL_SOCKET, SO_SNDBUF); \
             setsockopt($h, SOL_SOCKET, SO_SNDBUF, 100_000_000) or die; $taken++ if getsockopt($h, SOL_SOCKET, SO_SNDBUF) ne $old;",
        ),
        at_most("larger pipes", 0, PROCESSES, "pipe(R, W); $taken++ if fcntl(W, 1031, 1 << 20);"),
        at_most(
            "pages in pipes",
            0,
            PROCESSES,
            &format!(
                "pipe(R, W); $b = \"x\" x 4096; $v = pack(\"JJ\", unpack(\"J\", pack(\"p\", $b)), 4096); \
                 $taken++ if syscall({SYS_vmsplice}, fileno(W), $v, 1, 0) > 0; open(F, \"<\", \"/bin/sh\"); \
                 $taken++ if syscall({SYS_splice}, fileno(F), 0, fileno(W), 0, 4096, 0) > 0; \
                 $taken++ if syscall({SYS_sendfile}, fileno(W), fileno(F), 0, 4096) > 0;"
            ),
        ),
        at_most(
            "timers",
            4200,
            8 * 5000,
            &format!(
                "$z = \"\\0\" x 64; for (1..$n) {{ syscall({SYS_timer_create}, 1, 0, $z) == 0 or last; $taken++ }}"
            ),
        ),
        // The kernel looks at all locks of a file for each new one, so that they take more time than memory.
        at_most(
            "file locks",
            8000,
            8000,
            "open(F, \">\", \"f$$\"); for (1..$n) { $l = pack(\"ssx4qqix4\", 1, 0, 2 * $_, 1, 0); fcntl(F, 6, $l) or last; $taken++ }",
        ),
        at_most(
            "terminals",
            0,
            PROCESSES,
            "$taken++ if open(F, \"+<\", \"/dev/ptmx\") or open(F, \"+<\", \"/dev/tty\");",
        ),
        at_most(
            "settings of the kernel",
            0,
            PROCESSES,
            "for (\"/proc/self/oom_score_adj\", \"/proc/sys/vm/overcommit_memory\", \"/proc/sys/kernel/core_pattern\", \"/sys/kernel/uevent_helper\") \
             { $taken++ if open(F, \">>\", $_) }",
        ),
        at_most(
            "core dumps",
            0,
            PROCESSES,
            "$p = fork; if (!$p) { kill 11, $$; sleep 1000 } waitpid($p, 0); $taken++ if $? & 128; $taken++ if grep { /core/ } glob(\"*\");",
        ),
        with_zeros("memfd", SYS_memfd_create, ", $z, 0"),
        refused("secret memory", SYS_memfd_secret, ", 0"),
        refused("inotify", SYS_inotify_init1, ", 0"),
        refused("fanotify", SYS_fanotify_init, ", 0x200, 0"),
        with_zeros("io_uring", SYS_io_uring_setup, ", 8, $z"),
        with_zeros("asynchronous requests", SYS_io_setup, ", 8, $z"),
        refused("userfaultfd", SYS_userfaultfd, ", 1"),
        with_zeros("BPF", SYS_bpf, ", 0, $z, 128"),
        with_zeros("performance counters", SYS_perf_event_open, ", $z, 0, -1, -1, 0"),
        refused("System V shared memory", SYS_shmget, ", 0, 4096, 0600"),
        refused("System V messages", SYS_msgget, ", 0, 0600"),
        refused("System V semaphores", SYS_semget, ", 0, 1, 0600"),
        refused("message queues", SYS_mq_open, ", $q = \"weir\", 0102, 0600, 0"),
        refused("keys", SYS_add_key, ", $q = \"user\", $d = \"weir\", $p = \"x\", 1, -3"),
        refused("a keyring", SYS_keyctl, ", 1, 0"),
        with_zeros("rules of Landlock", SYS_landlock_create_ruleset, ", $z, 8, 0"),
        refused(
            "attributes of files",
            SYS_setxattr,
            ", $f = \"/dev/null\", $q = \"user.x\", $p = \"y\", 1, 0",
        ),
        refused("handles of processes", SYS_pidfd_open, ", $$, 0"),
        refused("namespaces", SYS_unshare, ", 0x10000000"),
        refused("message buffers of the kernel", SYS_syslog, ", 10, 0, 0"),
    ]
}

/// `processes` times the same attempt. What is killed must be killed: they hold what they have until then.
fn program(resource: &Resource, processes: u64, marker: &str) -> String {
    let holds = matches!(resource.fate, Fate::Stopped(_));
    let threads = if resource.take.contains("threads") { "use threads; " } else { "" };
    let (take, each) = (resource.take.replace("MIB", "1048576"), resource.much / processes);
    let hold = if holds { "sleep 1000" } else { "exit" };
    format!(
        "perl -e '{threads}use Socket; use IO::Handle; $n = {each}; \
         sub take {{ $taken = 0; {take} syswrite(STDOUT, \"$taken\\n\"); {hold} }} \
         for (2..{processes}) {{ fork or take() }} if ({processes} > 1) {{ fork or take(); 1 while wait > 0; exit }} take()' {marker}"
    )
}

fn is_soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

/// How many processes try at once: one and some, or every number up to twice as many in a soak.
fn crowds() -> Vec<u64> {
    if is_soak() { (1..=2 * PROCESSES).collect() } else { vec![1, PROCESSES] }
}

async fn check(resource: &Resource, processes: u64) {
    let marker = marker();
    let memory_bytes = small(processes).memory_bytes.max(resource.limits.memory_bytes);
    let lab = Lab::with_limits(Limits { memory_bytes, ..resource.limits });
    let told = format!("{} × {processes}", resource.name);
    let command = format!("exec {}", program(resource, processes, &marker));
    let ran = lab.try_run(&command, DEADLINE / 2).await.unwrap();
    let said = format!("{told}: {ran:?} {} {}", ran.stdout.text(), ran.stderr.text());
    match resource.fate {
        // On a busy machine the look at the memory may come before the look at another count: both are bounds.
        Fate::Stopped(stop) => {
            let ends = [End::Stopped(stop), End::Stopped(Stop::Memory)];
            assert!(ends.contains(&ran.end), "{said}");
        }
        Fate::AtMost(most) => {
            assert_eq!(ran.end, End::Exited(0), "{said}");
            let taken: Vec<u64> = ran.stdout.text().lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(taken.len() as u64, processes, "{said}");
            assert!(taken.iter().all(|taken| *taken <= most), "{said}");
        }
    }
    assert!(!is_running(&marker), "{told} is left behind");
}

/// Two resources are taken at the same time: the limit of one of them stops both.
async fn check_both(one: &Resource, other: &Resource) {
    let marker = marker();
    let memory_bytes = small(PROCESSES).memory_bytes;
    let memory_bytes = memory_bytes.max(one.limits.memory_bytes).max(other.limits.memory_bytes);
    let lab = Lab::with_limits(Limits { memory_bytes, ..small(PROCESSES) });
    let [first, second] = [one, other].map(|resource| program(resource, PROCESSES / 2, &marker));
    let ran = lab.try_run(&format!("{first} & {second} & wait"), DEADLINE / 2).await.unwrap();
    let said = format!("{} and {}: {ran:?} {}", one.name, other.name, ran.stderr.text());
    let both = [one, other];
    let stops = both.iter().filter_map(|resource| match resource.fate {
        Fate::Stopped(stop) => Some(stop),
        Fate::AtMost(_) => None,
    });
    let mut ends = stops.chain([Stop::Memory]).map(End::Stopped);
    assert!(ends.any(|end| end == ran.end), "{said}");
    assert!(!is_running(&marker), "{said} is left behind");
}

#[tokio::test]
async fn what_is_counted_is_bounded_for_one_process_and_for_many() {
    for resource in counted() {
        for processes in crowds() {
            check(&resource, processes).await;
        }
    }
}

/// Every pair of resources in a soak, and some of them in each test run.
#[tokio::test]
async fn what_is_counted_is_bounded_two_at_a_time() {
    let counted = counted();
    let pairs = counted.iter().enumerate().flat_map(|(n, one)| {
        let others = counted.iter().skip(n + 1);
        others.map(move |other| (one, other))
    });
    for (one, other) in pairs.step_by(if is_soak() { 1 } else { 11 }) {
        check_both(one, other).await;
    }
}

#[tokio::test]
async fn what_is_withheld_nobody_gets() {
    for resource in withheld() {
        for processes in crowds() {
            check(&resource, processes).await;
        }
    }
}

/// The bounds that count must hold where the kernel lets nobody into a namespace.
#[test]
fn without_namespaces_the_same_is_bounded() {
    super::kernels::without(&[SYS_unshare], EPERM, async {
        let support = Lab::confined().sandbox.support().await.unwrap();
        assert!(!support.own_processes && !support.own_network && !support.own_ipc, "{support:?}");
        // Of shared memory there is none then.
        let counted = counted().into_iter().filter(|resource| resource.name != "shared memory");
        for resource in counted.chain(withheld()) {
            for processes in if is_soak() { crowds() } else { vec![1] } {
                check(&resource, processes).await;
            }
        }
    });
}

/// Deleted files that are still open take memory where the room is in memory, and no walk finds them.
#[tokio::test]
async fn deleted_files_in_memory_are_bounded() {
    let rooms = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut lab = Lab::with_limits(small(1));
    lab.sandbox = lab.sandbox.with_rooms_in(rooms.path());
    let take = "perl -e '$m = \"x\" x 1048576; for (1..8) { open(my $f, \">\", \"f\"); unlink \"f\"; \
                for (1..12) { syswrite($f, $m) } push @k, $f } sleep 1000'";
    let ran = lab.try_run(take, DEADLINE / 2).await.unwrap();
    assert_eq!(ran.end, End::Stopped(Stop::Disk), "{ran:?}");
    assert_eq!(std::fs::read_dir(rooms.path()).unwrap().count(), 0);
}

/// What programs need is there, and does not come near the limits.
#[tokio::test]
async fn programs_work_within_the_limits() {
    let lab = Lab::confined();
    for (program, command, expected) in [
        (
            "bash",
            "mkfifo p; seq 3 > p & paste -sd, p; wait; diff <(echo a) <(echo a) && echo same",
            "1,2,3\nsame\n",
        ),
        ("tar", "mkdir d; seq 1000 > d/f; tar czf d.tgz d; rm -r d; tar xzf d.tgz; tail -n 1 d/f", "1000\n"),
        (
            "cp",
            "seq 9 > a; cp -a a b; cp --sparse=always b c; cat < c | tail -n 1; mv c ~/c; cp ~/c $TMPDIR; tail -n 1 $TMPDIR/c",
            "9\n9\n",
        ),
        ("xz", "seq 1000 | xz | xz -d | tail -n 1", "1000\n"),
        ("sort", "seq 200000 | sort -rn -S 1M --parallel=4 | head -n 1", "200000\n"),
        (
            "git",
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q g && cd g && \
             echo x > f && git add f && git commit -qm one && git clone -q . ../h && cd ../h && git gc -q && git log --format=%s",
            "one\n",
        ),
        (
            "gcc",
            "printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > a.c; gcc -O2 -o a a.c && ./a",
            "built\n",
        ),
        (
            "make",
            "printf 'all: a b\\na b:\\n\\techo $@ > $@\\n' > Makefile; make -s -j4 && cat a b",
            "a\nb\n",
        ),
        (
            "/usr/bin/python3",
            "/usr/bin/python3 -c 'import asyncio, subprocess, multiprocessing, shutil, sqlite3, tempfile\n\
             async def main():\n p = await asyncio.create_subprocess_exec(\"echo\", \"child\", stdout=-1)\n print((await p.communicate())[0].decode().strip())\n\
             def double(n): return 2 * n\n\
             if __name__ == \"__main__\":\n asyncio.run(main())\n open(\"a\", \"w\").write(\"x\" * 100000); shutil.copyfile(\"a\", \"b\"); print(len(open(\"b\").read()))\n \
             d = sqlite3.connect(\"d\"); d.execute(\"create table t (n)\"); d.execute(\"insert into t values (7)\"); d.commit(); print(d.execute(\"select n from t\").fetchone()[0])\n \
             print(multiprocessing.get_context(\"fork\").Pool(2).map(double, [1, 2]))'",
            "child\n100000\n7\n[2, 4]\n",
        ),
        (
            "node",
            "node -e 'const fs = require(\"fs\"), { execFileSync, spawn } = require(\"child_process\"), { Worker } = require(\"worker_threads\"); \
             fs.writeFileSync(\"a\", \"x\".repeat(100000)); fs.copyFileSync(\"a\", process.env.HOME + \"/b\"); console.log(fs.readFileSync(process.env.HOME + \"/b\").length); \
             console.log(execFileSync(\"echo\", [\"child\"]).toString().trim()); \
             new Worker(\"require(\\\"worker_threads\\\").parentPort.postMessage(7)\", { eval: true }).on(\"message\", (n) => { console.log(n); \
             spawn(\"cat\", { stdio: [\"pipe\", \"inherit\", \"inherit\"] }).stdin.end(\"piped\\n\") })'",
            "100000\nchild\n7\npiped\n",
        ),
    ] {
        let found = lab.run(&format!("command -v {program}")).await;
        // What is not on this machine is not tried.
        if found.end == End::Exited(0) {
            assert_eq!(lab.prints(command).await, expected, "{program}");
        }
    }
}

/// The worst case that `docs/sandbox.md` states is what the limits come to.
#[test]
fn the_worst_case_is_what_the_documentation_says() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md")).unwrap();
    let gib = Limits::default().worst_case_bytes() as f64 / (1 << 30) as f64;
    assert!(text.contains(&format!("{gib:.1} GiB")), "{gib:.1} GiB is not in docs/sandbox.md");
}
