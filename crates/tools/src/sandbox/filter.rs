//! The system calls that a confined command does not have.
//!
//! It is a list of what is refused, not of what is allowed: commands are compilers, interpreters and whatever a project brings, and
//! the calls they need change with every C library; files are Landlock's affair. What the list must not do is age: calls with
//! numbers above the newest that was looked at here do not exist for a command, as on an older kernel. Nor do the calls of
//! other architectures: programs for those are killed, and the x32 numbers are beyond the newest one.
//!
//! Refused is `EPERM`; where programs have another way, `ENOSYS` makes them take it. Some calls are answered as if they had been made, since
//! programs give up without them that can very well do without.

mod calls;

use std::collections::BTreeMap;

use libc::*;
use seccompiler::SeccompCmpOp::{Eq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use self::calls::{
    ABSENT, ABSENT_HERE, BUFFER_OPTIONS, CONDITIONALLY_REFUSED, F_SETPIPE_SZ, METADATA_BY_FILE,
    METADATA_BY_PATH, METADATA_BY_PATH_HERE, PRETENDED, REFUSED, REFUSED_HERE, SIGNALS, SIGNALS_BY_FILES,
    SOCKETS, UNSUITABLE,
};

/// What the rest of the confinement cannot do, so that calls have to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Signals reach everybody: nobody may send any.
    pub(super) signal_scope: bool,
    /// The rest of the disk can be changed in ways that Landlock does not know: modes, owners, times, attributes.
    pub(super) read_only_rest: bool,
    /// The caller owns the system's files, which it can open: then open files cannot be changed that way either.
    pub(super) is_root: bool,
}

/// Whether IPv4 and IPv6 are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Closed,
    Open,
}

/// The programs to install, in this order.
pub(super) fn programs(lacking: Lacking, network: Network) -> Result<[BpfProgram; 4], seccompiler::Error> {
    let mut refused: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    match network {
        Network::Closed => refused.extend(SOCKETS.iter().map(|call| (*call, Vec::new()))),
        Network::Open => {
            refused.insert(SYS_socket, only_internet()?);
        }
    }
    for (call, argument, operator, value) in CONDITIONALLY_REFUSED {
        add_if(&mut refused, *call, *argument, operator.clone(), *value)?;
    }
    if lacking.signal_scope {
        refused.extend(SIGNALS.iter().map(|call| (*call, Vec::new())));
        for (call, value) in SIGNALS_BY_FILES {
            add_if(&mut refused, *call, 1, Eq, *value)?;
        }
    }
    let mut pretended: Rules = PRETENDED.iter().map(|call| (*call, Vec::new())).collect();
    if lacking.read_only_rest {
        pretended
            .extend(METADATA_BY_PATH.iter().chain(METADATA_BY_PATH_HERE).map(|call| (*call, Vec::new())));
        add_if(&mut pretended, SYS_utimensat, 1, Ne, 0)?;
        if lacking.is_root {
            pretended.extend(METADATA_BY_FILE.iter().map(|call| (*call, Vec::new())));
        }
    }
    let unsuitable: Rules = UNSUITABLE.iter().map(|call| (*call, Vec::new())).collect();
    add_if(&mut refused, SYS_fcntl, 1, Eq, F_SETPIPE_SZ)?;
    for option in BUFFER_OPTIONS {
        let rule = SeccompRule::new(vec![is(1, Eq, SOL_SOCKET as u64)?, is(2, Eq, *option)?])?;
        pretended.entry(SYS_setsockopt).or_default().push(rule);
    }
    // What it is may be asked.
    let changed = SeccompRule::new(vec![is(0, Ne, 0)?, is(0, Ne, 0xffff_ffff)?])?;
    refused.entry(SYS_personality).or_default().push(changed);
    let absent: Rules = ABSENT.iter().chain(ABSENT_HERE).map(|call| (*call, Vec::new())).collect();
    let mut absent = compile(absent, ENOSYS)?;
    let mut program = newer_calls_are_absent();
    program.append(&mut absent);
    Ok([program, compile(unsuitable, EINVAL)?, compile(pretended, 0)?, compile(refused, EPERM)?])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Sockets of all families but the internet's, and the one by which programs ask which addresses the machine has.
fn only_internet() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let other = [AF_INET, AF_INET6, AF_NETLINK].into_iter().map(|family| is(0, Ne, family as u64));
    let other = SeccompRule::new(other.collect::<Result<_, _>>()?)?;
    let asks_else = SeccompRule::new(vec![is(0, Eq, AF_NETLINK as u64)?, is(2, Ne, NETLINK_ROUTE as u64)?])?;
    Ok(vec![other, asks_else])
}

fn add_if(
    rules: &mut Rules,
    call: c_long,
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<(), seccompiler::Error> {
    // All arguments that are looked at are ints to the kernel, but for the pointer of `utimensat` and the flags of `clone`.
    let length = if call == SYS_utimensat || call == SYS_clone {
        SeccompCmpArgLen::Qword
    } else {
        SeccompCmpArgLen::Dword
    };
    let condition = SeccompCondition::new(argument, length, operator, value)?;
    rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    Ok(())
}

/// A condition on an argument that the kernel takes for an int.
fn is(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

fn compile(rules: Rules, errno: c_int) -> Result<BpfProgram, seccompiler::Error> {
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, ARCHITECTURE)?;
    Ok(filter.try_into()?)
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// `EM_X86_64` or `EM_AARCH64`, 64 bits, little-endian: what `seccomp_data.arch` is for our own calls.
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 62 | 0x8000_0000 | 0x4000_0000;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 183 | 0x8000_0000 | 0x4000_0000;

/// `mseal`, the newest call that was looked at. From 424 on, numbers are the same everywhere.
const NEWEST: u32 = 462;

/// seccompiler's programs let through what they do not know, so this goes first.
fn newer_calls_are_absent() -> BpfProgram {
    let (load, jump_equal, jump_greater, answer) = (0x20, 0x15, 0x25, 0x06);
    let statement = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let jump = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    vec![
        statement(load, 4), // seccomp_data.arch
        jump(jump_equal, AUDIT_ARCH, 1, 0),
        statement(answer, SECCOMP_RET_KILL_PROCESS),
        statement(load, 0), // seccomp_data.nr
        jump(jump_greater, NEWEST, 0, 1),
        statement(answer, SECCOMP_RET_ERRNO | ENOSYS.unsigned_abs()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_ones_the_kernel_takes() {
        for bits in 0..8 {
            let lacking = Lacking {
                signal_scope: bits & 1 != 0,
                read_only_rest: bits & 2 != 0,
                is_root: bits & 4 != 0,
            };
            for network in [Network::Closed, Network::Open] {
                // The kernel checks a program before it installs it; on a thread of its own, since that stays.
                let installed = std::thread::spawn(move || {
                    let programs = programs(lacking, network).unwrap();
                    programs.iter().try_for_each(|program| seccompiler::apply_filter(program))
                });
                installed.join().unwrap().unwrap();
            }
        }
    }

    /// What the kernel does with a program, for the few instructions that ours have.
    fn answer(program: &[sock_filter], arch: u32, nr: u32, arguments: [u64; 6]) -> u32 {
        let mut data = [0; 64];
        data[..4].copy_from_slice(&nr.to_ne_bytes());
        data[4..8].copy_from_slice(&arch.to_ne_bytes());
        for (place, argument) in data[16..].chunks_exact_mut(8).zip(arguments) {
            place.copy_from_slice(&argument.to_ne_bytes());
        }
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut jump = |holds| at += usize::from(if holds { jt } else { jf });
            match code {
                0x20 => {
                    let place = k as usize;
                    accumulator = u32::from_ne_bytes(data[place..place + 4].try_into().unwrap());
                }
                0x54 => accumulator &= k,
                0x05 => at += k as usize,
                0x15 => jump(accumulator == k),
                0x25 => jump(accumulator > k),
                0x35 => jump(accumulator >= k),
                0x06 => return k,
                other => panic!("{other:#x} is not an instruction of ours"),
            }
        }
    }

    const FULL: Lacking = Lacking { signal_scope: false, read_only_rest: false, is_root: false };
    const POOR: Lacking = Lacking { signal_scope: true, read_only_rest: true, is_root: true };
    const ALLOW: u32 = SECCOMP_RET_ALLOW;
    const NO: u32 = SECCOMP_RET_ERRNO | EPERM as u32;
    const PRETENDED: u32 = SECCOMP_RET_ERRNO;
    const ABSENT: u32 = SECCOMP_RET_ERRNO | ENOSYS as u32;

    /// The strictest of what the programs say.
    fn check(lacking: Lacking, call: c_long, arguments: [u64; 6], expected: u32) {
        check_with(Network::Closed, lacking, call, arguments, expected);
    }

    fn check_with(network: Network, lacking: Lacking, call: c_long, arguments: [u64; 6], expected: u32) {
        let said = programs(lacking, network)
            .unwrap()
            .map(|program| answer(&program, AUDIT_ARCH, u32::try_from(call).unwrap(), arguments));
        assert_eq!(said.into_iter().min(), Some(expected), "{call} {arguments:x?}");
    }

    #[test]
    fn what_programs_need_is_there_and_the_rest_is_not() {
        let none = [0; 6];
        for call in
            [SYS_read, SYS_openat, SYS_execve, SYS_wait4, SYS_fchmod, SYS_fchmodat, SYS_mmap, SYS_openat2]
        {
            check(FULL, call, none, ALLOW);
        }
        for call in [SYS_socket, SYS_ptrace, SYS_mount, SYS_bpf, SYS_unshare, SYS_shmget] {
            check(FULL, call, none, NO);
        }
        for call in
            [SYS_clone3, SYS_io_uring_setup, SYS_memfd_create, 463, 1000, 0x4000_0000 + 41, 0x7fff_ffff]
        {
            check(FULL, call, none, ABSENT);
        }
        for call in [SYS_setsid, SYS_setpgid] {
            check(FULL, call, none, PRETENDED);
        }
        for call in [SYS_splice, SYS_tee, SYS_vmsplice, SYS_sendfile] {
            check(FULL, call, none, SECCOMP_RET_ERRNO | EINVAL as u32);
        }
        for call in
            [SYS_inotify_init1, SYS_inotify_add_watch, SYS_fanotify_init, SYS_pidfd_open, SYS_io_setup]
        {
            check(FULL, call, none, ABSENT);
        }
        for call in [
            SYS_name_to_handle_at,
            SYS_mq_timedsend,
            SYS_keyctl,
            SYS_setxattr,
            SYS_fsetxattr,
            SYS_userfaultfd,
            SYS_perf_event_open,
        ] {
            check(FULL, call, none, NO);
        }
        for call in [SYS_kill, SYS_tgkill, SYS_pidfd_send_signal] {
            check(FULL, call, [1234, 9, 0, 0, 0, 0], ALLOW);
            check(POOR, call, [1234, 9, 0, 0, 0, 0], NO);
        }
        let not_root = Lacking { is_root: false, ..POOR };
        for (by_path, by_file, answer) in
            [(SYS_fchmodat, SYS_fchmod, PRETENDED), (SYS_fchownat, SYS_fchown, PRETENDED)]
        {
            check(FULL, by_path, none, ALLOW);
            check(FULL, by_file, none, ALLOW);
            check(not_root, by_path, none, answer);
            check(not_root, by_file, none, ALLOW);
            check(POOR, by_path, none, answer);
            check(POOR, by_file, none, answer);
        }
    }

    #[test]
    fn arguments_decide() {
        let check_first = |call, first: u64, expected| check(FULL, call, [first, 1, 0, 0, 0, 0], expected);
        check_first(SYS_kill, 1234, ALLOW);
        check_first(SYS_kill, 0, NO);
        check_first(SYS_kill, u64::MAX, NO);
        // A process is an int: what is above it does not count.
        check_first(SYS_kill, (1 << 32) + (-5_i32).cast_unsigned() as u64, NO);
        check_first(SYS_socketpair, AF_UNIX as u64, ALLOW);
        check_first(SYS_socketpair, AF_INET as u64, NO);
        check_first(SYS_prlimit64, 0, ALLOW);
        check_first(SYS_prlimit64, 1, NO);
        check_first(SYS_clone, (CLONE_VM | CLONE_VFORK | SIGCHLD) as u64, ALLOW);
        for flag in [CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID] {
            check_first(SYS_clone, (flag | SIGCHLD) as u64, NO);
        }
        let pair = |kind: c_int| [AF_UNIX as u64, kind as u64, 0, 0, 0, 0];
        check(FULL, SYS_socketpair, pair(SOCK_SEQPACKET | SOCK_CLOEXEC), ALLOW);
        check(FULL, SYS_socketpair, pair(SOCK_DGRAM | SOCK_NONBLOCK), NO);
        check(POOR, SYS_fcntl, [3, F_SETOWN as u64, 1, 0, 0, 0], NO);
        check(FULL, SYS_fcntl, [3, F_SETOWN as u64, 1, 0, 0, 0], ALLOW);
        check(FULL, SYS_fcntl, [3, F_SETPIPE_SZ, 1 << 20, 0, 0, 0], NO);
        let option = |level: c_int, option: c_int| [3, level as u64, option as u64, 0, 4, 0];
        check(FULL, SYS_setsockopt, option(SOL_SOCKET, SO_SNDBUF), PRETENDED);
        check(FULL, SYS_setsockopt, option(SOL_SOCKET, SO_RCVBUF), PRETENDED);
        check(FULL, SYS_setsockopt, option(SOL_SOCKET, SO_PASSCRED), ALLOW);
        check_first(SYS_personality, 0, ALLOW);
        check_first(SYS_personality, 0xffff_ffff, ALLOW);
        check_first(SYS_personality, 0x004_0000, NO);
        check(FULL, SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], NO);
        check(FULL, SYS_ioctl, [0, 0x5401, 0, 0, 0, 0], ALLOW);
        let by_file = Lacking { is_root: false, ..POOR };
        check(by_file, SYS_utimensat, [3, 0, 0, 0, 0, 0], ALLOW);
        check(by_file, SYS_utimensat, [3, 1 << 40, 0, 0, 0, 0], PRETENDED);
        check(POOR, SYS_utimensat, [3, 0, 0, 0, 0, 0], PRETENDED);
    }

    #[test]
    fn an_open_network_is_that_of_the_internet() {
        let open = |family: c_int, protocol: c_int, expected| {
            let arguments = [family as u64, SOCK_DGRAM as u64, protocol as u64, 0, 0, 0];
            check_with(Network::Open, FULL, SYS_socket, arguments, expected);
            check_with(Network::Closed, FULL, SYS_socket, arguments, NO);
        };
        open(AF_INET, 0, ALLOW);
        open(AF_INET6, 0, ALLOW);
        open(AF_NETLINK, NETLINK_ROUTE, ALLOW);
        open(AF_NETLINK, NETLINK_AUDIT, NO);
        for family in [AF_UNIX, AF_PACKET, AF_VSOCK, AF_ALG, 0] {
            open(family, 0, NO);
        }
        for call in [SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4] {
            check_with(Network::Open, FULL, call, [0; 6], ALLOW);
            check_with(Network::Closed, FULL, call, [0; 6], NO);
        }
        check_with(Network::Open, FULL, SYS_ptrace, [0; 6], NO);
        check_with(Network::Open, FULL, SYS_socketpair, [AF_UNIX as u64, SOCK_DGRAM as u64, 0, 0, 0, 0], NO);
    }

    #[test]
    fn programs_of_other_architectures_are_killed() {
        for foreign in [3 | 0x4000_0000, 0, 62] {
            for program in programs(FULL, Network::Closed).unwrap() {
                assert_eq!(answer(&program, foreign, 1, [0; 6]), SECCOMP_RET_KILL_PROCESS);
            }
        }
    }

    #[test]
    fn a_filtered_thread_has_no_sockets_and_others_have() {
        let refused = std::thread::spawn(|| {
            let lacking = Lacking { signal_scope: false, read_only_rest: false, is_root: false };
            for program in programs(lacking, Network::Closed).unwrap() {
                seccompiler::apply_filter(&program).unwrap();
            }
            std::net::UdpSocket::bind("127.0.0.1:0").map(drop).map_err(|error| error.raw_os_error())
        });
        assert_eq!(refused.join().unwrap(), Err(Some(EPERM)));
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    }
}
