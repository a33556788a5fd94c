//! Which system calls are which, in tables.

use libc::*;
use seccompiler::SeccompCmpOp::{self, Eq, Ge, MaskedEq, Ne};

/// Numbers that the libc crate does not have for every target.
const FCHMODAT2: c_long = 452;
const STATMOUNT: c_long = 457;
const LISTMOUNT: c_long = 458;
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = 320;
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;

/// Calls for which programs have another way, or which few need.
pub(super) const ABSENT: &[c_long] = &[
    // Its flags are behind a pointer; everybody falls back to `clone`.
    SYS_clone3,
    // Does what other calls do, past these filters.
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    // Memory that no limit counts.
    SYS_memfd_create,
    SYS_memfd_secret,
    // Tells the names of files in directories that Landlock closes. Programs look from time to time instead.
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    // Handles on processes: everybody falls back to their numbers.
    SYS_pidfd_open,
    // Rules cost memory of the kernel, once for each process that they are about. Programs that confine themselves do without.
    SYS_landlock_create_ruleset,
    // Requests that the whole machine has few of.
    SYS_io_setup,
    SYS_io_submit,
];

/// Calls that put pages of memory or of files into pipes and sockets instead of copies: one page there keeps the two megabytes around it, which
/// belong to no process then. `EINVAL` is what makes programs copy.
pub(super) const UNSUITABLE: &[c_long] = &[SYS_splice, SYS_tee, SYS_vmsplice, SYS_sendfile];

/// `SO_SNDBUF`, `SO_RCVBUF` and their forced forms: a socket's buffer is kernel memory that no process has, so it stays as it is, and programs are told that
/// it was changed.
pub(super) const BUFFER_OPTIONS: &[u64] = &[SO_SNDBUF as u64, SO_RCVBUF as u64, 32, 33];

/// A pipe's buffer, which stays as it is. The libc crate does not have it for every target.
pub(super) const F_SETPIPE_SZ: u64 = 1031;

/// Leaving the process group, by which all of it is killed. What is put into the background ends with the command.
pub(super) const PRETENDED: &[c_long] = &[SYS_setsid, SYS_setpgid];

/// Sockets, of every family. Those of `socketpair` must not be led elsewhere either.
pub(super) const SOCKETS: &[c_long] =
    &[SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4];

pub(super) const REFUSED: &[c_long] = &[
    // Other processes, and what they have.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_process_mrelease,
    SYS_pidfd_getfd,
    SYS_kcmp,
    SYS_migrate_pages,
    SYS_move_pages,
    // Memory and messages that outlive their processes, and that others of this user share.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    // Attributes of files: access lists, and memory of the kernel on some file systems. Few programs need them, and none gives up without.
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    // Keys.
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // Other views of files.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    STATMOUNT,
    LISTMOUNT,
    SYS_quotactl,
    SYS_quotactl_fd,
    // The kernel's insides, and the machine.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    KEXEC_FILE_LOAD,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_nfsservctl,
    SYS_lookup_dcookie,
];

#[cfg(target_arch = "x86_64")]
pub(super) const ABSENT_HERE: &[c_long] = &[SYS_inotify_init];
#[cfg(target_arch = "aarch64")]
pub(super) const ABSENT_HERE: &[c_long] = &[];

#[cfg(target_arch = "x86_64")]
pub(super) const REFUSED_HERE: &[c_long] = &[SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS__sysctl];
#[cfg(target_arch = "aarch64")]
pub(super) const REFUSED_HERE: &[c_long] = &[];

/// A call, which of its arguments, and what that must not be.
pub(super) const CONDITIONALLY_REFUSED: &[(c_long, u8, SeccompCmpOp, u64)] = &[
    // Only Unix pairs, and only such that cannot be sent from to other sockets.
    (SYS_socketpair, 0, Ne, AF_UNIX as u64),
    (SYS_socketpair, 1, MaskedEq(0xf), SOCK_DGRAM as u64),
    (SYS_socketpair, 1, MaskedEq(0xf), SOCK_RAW as u64),
    // Namespaces.
    (SYS_clone, 0, MaskedEq(CLONE_NEWNS as u64), CLONE_NEWNS as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWCGROUP as u64), CLONE_NEWCGROUP as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWUTS as u64), CLONE_NEWUTS as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWIPC as u64), CLONE_NEWIPC as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWUSER as u64), CLONE_NEWUSER as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWPID as u64), CLONE_NEWPID as u64),
    (SYS_clone, 0, MaskedEq(CLONE_NEWNET as u64), CLONE_NEWNET as u64),
    // Groups of processes: there is one, and `timeout`, which thinks that it has made its own, would end all of it.
    (SYS_kill, 0, Eq, 0),
    (SYS_kill, 0, Ge, 1 << 31),
    // Limits and priorities of others.
    (SYS_prlimit64, 0, Ne, 0),
    (SYS_setpriority, 0, Ne, PRIO_PROCESS as u64),
    (SYS_setpriority, 1, Ne, 0),
    (SYS_ioprio_set, 0, Ne, 1), // IOPRIO_WHO_PROCESS
    (SYS_ioprio_set, 1, Ne, 0),
    (SYS_sched_setparam, 0, Ne, 0),
    (SYS_sched_setscheduler, 0, Ne, 0),
    (SYS_sched_setattr, 0, Ne, 0),
    (SYS_sched_setaffinity, 0, Ne, 0),
    // Typing into a terminal.
    (SYS_ioctl, 1, Eq, 0x5412), // TIOCSTI
    (SYS_ioctl, 1, Eq, 0x541C), // TIOCLINUX
];

pub(super) const SIGNALS: &[c_long] =
    &[SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal];

/// A file can send signals to whom it is said to belong to.
pub(super) const SIGNALS_BY_FILES: &[(c_long, u64)] = &[
    (SYS_fcntl, F_SETOWN as u64),
    (SYS_fcntl, 10),     // F_SETSIG
    (SYS_fcntl, 15),     // F_SETOWN_EX
    (SYS_ioctl, 0x8901), // FIOSETOWN
    (SYS_ioctl, 0x8902), // SIOCSPGRP
];

/// Modes, owners and times. Half of what unpacks, installs or versions files gives up if it cannot set them, and does not look whether they were set:
/// so they are pretended.
pub(super) const METADATA_BY_PATH: &[c_long] = &[SYS_fchmodat, FCHMODAT2, SYS_fchownat];

#[cfg(target_arch = "x86_64")]
pub(super) const METADATA_BY_PATH_HERE: &[c_long] =
    &[SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat];
#[cfg(target_arch = "aarch64")]
pub(super) const METADATA_BY_PATH_HERE: &[c_long] = &[];

pub(super) const METADATA_BY_FILE: &[c_long] = &[SYS_fchmod, SYS_fchown, SYS_utimensat];
