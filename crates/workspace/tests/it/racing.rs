//! What happens when others act in the directory at the same moment, or the store is not what it should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path as Place;
use std::sync::Arc;

use tempfile::tempdir;
use tokio::sync::Notify;
use weir_blobs::Blobs;
use weir_workspace::{Change, ChangesError, CheckoutError, Entry, Files, checkout};

use crate::meddling::Meddling;
use crate::support::{apply, entry, look, write, written};

#[tokio::test]
async fn a_change_names_what_was_stored_when_the_file_changes_under_the_reader() {
    let directory = tempdir().unwrap();
    write(directory.path(), "file", "old old old");
    let file = directory.path().join("file");
    let blobs = Meddling::in_put(move |_| fs::write(&file, "new new new new").unwrap());
    let found = look(directory.path(), &Files::new(), &blobs).await.unwrap();
    // Four bytes were read before the file was written anew.
    let mixture = "old new new new";
    assert_eq!(found.changes, [written("file", mixture)]);
    let stored = (&blobs.inner as &dyn Blobs).get_bytes(weir_types::Hash::of(mixture.as_bytes()), 100).await;
    assert_eq!(stored.unwrap(), mixture);
}

#[tokio::test]
async fn what_is_replaced_during_the_look_is_not_followed() {
    type Meddle = fn(&Place, &Place);
    let meddles: [Meddle; 4] = [
        |inside, outside| {
            fs::remove_file(inside.join("d/2")).unwrap();
            symlink(outside.join("2"), inside.join("d/2")).unwrap();
        },
        |inside, outside| {
            fs::rename(inside.join("d"), inside.join("moved")).unwrap();
            symlink(outside, inside.join("d")).unwrap();
        },
        |inside, _| fs::remove_file(inside.join("d/2")).unwrap(),
        |inside, _| {
            fs::remove_file(inside.join("d/2")).unwrap();
            nix::unistd::mkfifo(&inside.join("d/2"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        },
    ];
    for meddle in meddles {
        let place = tempdir().unwrap();
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        write(&inside, "d/1", "1");
        write(&inside, "d/2", "2");
        write(&outside, "2", "secret");
        let (there, elsewhere) = (inside.clone(), outside);
        let blobs = Meddling::in_put(move |_| meddle(&there, &elsewhere));
        let error = look(&inside, &Files::new(), &blobs).await.unwrap_err();
        assert!(matches!(&error, ChangesError::Replaced { path } if path == "d/2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_checkout_stays_inside_when_something_is_put_in_its_way() {
    type Meddle = fn(&Place, &Place);
    let meddles: [Meddle; 3] = [
        |target, outside| {
            fs::rename(target.join("d"), target.join("moved")).unwrap();
            symlink(outside, target.join("d")).unwrap();
        },
        |target, outside| symlink(outside.join("2"), target.join("d/2")).unwrap(),
        |target, _| fs::write(target.join("d/2"), "theirs").unwrap(),
    ];
    for meddle in meddles {
        let place = tempdir().unwrap();
        let (target, outside) = (place.path().join("target"), place.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        let (there, elsewhere) = (target.clone(), outside.clone());
        let blobs = Meddling::in_get(move |n| {
            if n == 1 {
                meddle(&there, &elsewhere);
            }
        });
        let files = stored(&blobs, &[("d/1", "1"), ("d/2", "2")]).await;
        let error = checkout(&files, &target, &blobs).await.unwrap_err();
        assert!(
            matches!(&error, CheckoutError::InTheWay { path } if *path == target.join("d/2")),
            "{error:?}"
        );
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        let error = look(&target, &files, &blobs).await.unwrap_err();
        assert!(matches!(error, ChangesError::Unfinished), "{error:?}");
    }
}

#[tokio::test]
async fn a_checkout_that_was_dropped_is_noticed() {
    let place = tempdir().unwrap();
    let target = place.path().join("target");
    let reached = Arc::new(Notify::new());
    let tell = Arc::clone(&reached);
    let blobs = Meddling::stuck_in_get(1, move |n| {
        if n == 1 {
            tell.notify_one();
        }
    });
    let files = stored(&blobs, &[("1", "1"), ("2", "2"), ("3", "3")]).await;
    tokio::select! {
        biased;
        () = reached.notified() => {}
        done = checkout(&files, &target, &blobs) => panic!("{done:?} before it was dropped"),
    }
    assert_eq!(fs::read_to_string(target.join("1")).unwrap(), "1");
    let error = look(&target, &files, &blobs).await.unwrap_err();
    assert!(matches!(error, ChangesError::Unfinished), "{error:?}");
    let error = checkout(&files, &target, &blobs).await.unwrap_err();
    assert!(matches!(error, CheckoutError::NotEmpty { .. }), "{error:?}");
}

#[tokio::test]
async fn a_content_that_is_not_there_or_not_right_is_never_passed_off() {
    let place = tempdir().unwrap();
    let files = apply(&Files::new(), &[written("file", "true")]);
    let error = checkout(&files, &place.path().join("missing"), &Meddling::new()).await.unwrap_err();
    assert!(matches!(error, CheckoutError::Blob { .. }), "{error:?}");
    // A size that is not the content's, in an event that somebody else wrote.
    let mut longer = Files::new();
    let entry = Entry { size: 5, ..entry("true") };
    longer.apply(&Change::Written { path: "file".parse().unwrap(), entry });
    let error = checkout(&longer, &place.path().join("longer"), &Meddling::lying("true")).await.unwrap_err();
    assert!(matches!(error, CheckoutError::Mismatch { .. }), "{error:?}");
    for lie in ["lies", "true and more", "tru", ""] {
        let blobs = Meddling::lying(lie);
        let target = tempdir().unwrap();
        let error = checkout(&files, target.path(), &blobs).await.unwrap_err();
        assert!(matches!(error, CheckoutError::Mismatch { .. }), "{lie}: {error:?}");
        let error = look(target.path(), &files, &blobs).await.unwrap_err();
        assert!(matches!(error, ChangesError::Unfinished), "{error:?}");
    }
}

/// Files whose contents are in the store.
async fn stored(blobs: &Meddling, files: &[(&str, &'static str)]) -> Files {
    for (_, content) in files {
        (&blobs.inner as &dyn Blobs).put_bytes((*content).into()).await.unwrap();
    }
    apply(&Files::new(), &files.iter().map(|(path, content)| written(path, content)).collect::<Vec<_>>())
}
