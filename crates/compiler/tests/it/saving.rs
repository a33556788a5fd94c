//! Manifests on the disk: whole, once, found again.

use std::os::unix::fs::PermissionsExt;

use weir_compiler::{Mode, SaveError, Which, load, save};
use weir_types::Explain;

use crate::project::{HELPER, Project, everything_below};

#[tokio::test]
async fn what_was_built_is_found_again() {
    let project = Project::new(&[HELPER]);
    assert_eq!(load(&project.data_dir(), &Which::Latest).unwrap_err().code(), "build::nothing-built");
    let first = project.build_and_save().await.built.unwrap();
    project.write(HELPER.0, HELPER.1.replace("Helps.", "Helps more."));
    let second = project.build_and_save().await.built.unwrap();
    let find = |which: &Which<'_>| {
        load(&project.data_dir(), which).map(|found| found.hash).map_err(|error| error.code())
    };
    assert_eq!(find(&Which::Latest), Ok(second.hash));
    for built in [&first, &second] {
        let hash = built.hash.to_string();
        assert_eq!(find(&Which::Prefix(&hash)), Ok(built.hash));
        assert_eq!(find(&Which::Prefix(&hash[..12].to_uppercase())), Ok(built.hash));
    }
    assert_eq!(load(&project.data_dir(), &Which::Latest).unwrap().manifest, second.manifest);
    assert_eq!(find(&Which::Prefix("")), Err("build::ambiguous"));
    assert_eq!(find(&Which::Prefix("zzz")), Err("build::no-manifest"));
    assert_eq!(find(&Which::Prefix("../../weir")), Err("build::no-manifest"));
}

#[tokio::test]
async fn a_manifest_that_is_there_is_not_written_again_unless_it_is_damaged() {
    let project = Project::new(&[HELPER]);
    let built = project.build_and_save().await.built.unwrap();
    let path = project.file(&format!(".weir/build/{}.json", built.hash));
    let modified = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = modified();
    project.build_and_save().await;
    assert_eq!(modified(), before);
    std::fs::write(&path, "{}").unwrap();
    let damaged = load(&project.data_dir(), &Which::Latest).unwrap_err();
    assert!(matches!(damaged, SaveError::Damaged(hash) if hash == built.hash), "{damaged}");
    project.build_and_save().await;
    assert_eq!(std::fs::read(&path).unwrap(), built.bytes);
}

#[tokio::test]
async fn two_builds_at_once_leave_one_manifest_and_nothing_else() {
    let project = Project::new(&[HELPER]);
    let builds = futures_util::future::join_all((0..8).map(|_| project.build(Mode::Online))).await;
    let (path, data_dir) = (project.path(), project.data_dir());
    std::thread::scope(|scope| {
        for built in &builds {
            scope.spawn(|| save(&path, &data_dir, built).unwrap());
        }
    });
    let hash = builds[0].built.as_ref().unwrap().hash;
    let files = everything_below(&project.data_dir());
    assert_eq!(files.keys().collect::<Vec<_>>(), [&format!("build/{hash}.json"), "build/latest"]);
}

#[tokio::test]
async fn a_build_with_an_error_writes_nothing() {
    let project = Project::new(&[HELPER]);
    project.build_and_save().await;
    project.write(HELPER.0, "name: helper\n");
    let before = everything_below(&project.path());
    let broken = project.build(Mode::Online).await;
    save(&project.path(), &project.data_dir(), &broken).unwrap();
    assert_eq!(everything_below(&project.path()), before);
}

#[tokio::test]
async fn a_disk_that_says_no_is_told_and_leaves_nothing_half_written() {
    let project = Project::new(&[HELPER]);
    let built = project.build(Mode::Online).await;
    // A file where a directory has to be: also root cannot write below it.
    project.write(".weir", "in the way");
    let error = save(&project.path(), &project.data_dir(), &built).unwrap_err();
    assert_eq!(error.code(), "build::unwritable");
    assert!(error.to_string().starts_with("cannot write `"), "{error}");
    assert_eq!(error.help(), "check free space and permissions there; nothing was left half-written");
    assert_eq!(project.read(".weir"), "in the way");
    // It can still be built, just not kept: also in a directory that nobody may write to.
    std::fs::set_permissions(project.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let again = project.build(Mode::Online).await;
    std::fs::set_permissions(project.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(again.built, built.built);
}
