//! Kernels that lack something, made of this one by a filter.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use weir_tools::{Enforcement, Sandbox, SandboxError};
use weir_types::Explain;

use super::{Canary, DEADLINE, Lab, launcher};

/// Runs something, and all that it starts, on a kernel without these system calls.
pub(super) fn without(calls: &[i64], errno: i32, what: impl Future<Output = ()> + Send) {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(
        calls.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        architecture,
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            seccompiler::apply_filter(&program).unwrap();
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what);
        });
        ran.join().unwrap();
    });
}

#[test]
fn without_landlock_nothing_runs_and_it_is_said_why() {
    without(&[libc::SYS_landlock_create_ruleset], libc::ENOSYS, async {
        refuses(&Lab::confined()).await;
        let free = Lab::new(Enforcement::Off);
        assert_eq!(free.prints("echo free").await, "free\n");
    });
    without(&[libc::SYS_landlock_restrict_self], libc::EPERM, async { refuses(&Lab::confined()).await });
}

#[test]
fn without_seccomp_nothing_runs() {
    without(&[libc::SYS_seccomp], libc::ENOSYS, async { refuses(&Lab::confined()).await });
}

#[test]
fn without_dropping_capabilities_nothing_runs() {
    without(&[libc::SYS_capset], libc::EPERM, async { refuses(&Lab::confined()).await });
}

#[test]
fn without_limits_nothing_runs() {
    without(&[libc::SYS_prlimit64], libc::EPERM, async {
        let canary = Canary::new();
        let error =
            Lab::confined().try_run(&format!("rm -rf {}", canary.path()), DEADLINE).await.unwrap_err();
        assert!(matches!(error, SandboxError::NotStarted { .. } | SandboxError::Lost), "{error:?}");
        assert!(canary.is_untouched());
    });
}

async fn refuses(lab: &Lab) {
    let canary = Canary::new();
    let error = lab.try_run(&format!("rm -rf {}; echo ran", canary.path()), DEADLINE).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unconfined { .. }), "{error:?}");
    assert!(
        error.help().contains("`--unsafe-no-sandbox` runs commands without, with all rights of this user")
    );
    assert!(canary.is_untouched());
    let told = lab.sandbox.support().await.unwrap_err();
    assert!(matches!(told, SandboxError::Unconfined { .. }), "{told:?}");
}

#[tokio::test]
async fn what_this_kernel_can_is_told() {
    let support = Lab::confined().sandbox.support().await.unwrap();
    assert!(support.to_string().starts_with("commands are confined by Landlock and seccomp"), "{support}");
    let off = Lab::new(Enforcement::Off).sandbox.support().await.unwrap_err();
    assert!(off.to_string().contains("switched off"), "{off}");
}

#[tokio::test]
async fn a_launcher_that_is_not_there_or_not_ours_is_an_error() {
    for (launcher, expected) in [
        (vec!["/nowhere/weir".into()], "cannot start the process that watches over commands"),
        (Vec::new(), "cannot start the process that watches over commands"),
        (vec!["/bin/true".into()], "the process that watches over commands was lost"),
        (vec!["/bin/echo".into(), "{}".into()], "the process that watches over commands was lost"),
    ] {
        let lab = Lab::launched_by(launcher, Enforcement::Required, Default::default());
        let error = lab.try_run("true", DEADLINE).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let room = Sandbox::new(launcher()).with_rooms_in("/nowhere/at/all").room().await.unwrap_err();
    assert!(room.to_string().contains("/nowhere/at/all") && room.help().contains("TMPDIR"), "{room}");
}

#[test]
fn by_hand_it_says_that_it_is_not_for_people() {
    for args in [&["--help"][..], &[], &["--supervise", "--parent", "x", "--", "true"], &["--supervise"]] {
        let weir = crate::weir::Weir::new();
        let ran = weir.run(&[&["sandbox-exec"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{args:?}");
        assert!(ran.stderr.contains("it is not for people"), "{}", ran.stderr);
    }
}
