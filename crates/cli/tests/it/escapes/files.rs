//! Files elsewhere: read, written, or changed in other ways.

use libc::{SYS_open_by_handle_at, SYS_setxattr, SYS_utimensat};
use weir_tools::Enforcement;

use super::{ESCAPED, Lab, attempt, attempt_in, is_root};

#[tokio::test]
async fn nothing_elsewhere_is_read() {
    for command in [
        "cat CANARY/secret",
        "cat ../../../../../../../../../../..CANARY/secret",
        "cat ~/../../../../../../../../../..CANARY/secret",
        "ln -s CANARY/secret link && cat link",
        "ln -s CANARY link && cat link/secret",
        "ln CANARY/secret link; cat link",
        "cp -r CANARY copy; cat copy/secret",
        "cd CANARY && cat secret",
        "cd CANARY && echo *; ls CANARY/inner",
        "exec 5< CANARY/secret; cat <&5",
        "CANARY/program",
        "sh CANARY/program",
        "mv CANARY/secret . ; cat secret",
        "cat /proc/self/root/CANARY/secret",
        "cat /proc/$$/root/CANARY/secret",
        "cat /proc/$PPID/cwd/CANARY/secret",
        "cd CANARY; cat /proc/self/cwd/secret",
        "perl -e 'use Fcntl; sysopen(F, \"CANARY/secret\", 010000000); open(G, \"<&\", \\*F); \
         open(H, \"/proc/self/fd/\" . fileno(F)); print <H>'",
        "tar cf - -C / CANARY | cat",
    ] {
        attempt(command).await;
    }
}

#[tokio::test]
async fn nothing_elsewhere_is_written() {
    for command in [
        "echo x > CANARY/new",
        "echo x >> CANARY/secret",
        "echo x > CANARY/secret",
        "rm CANARY/secret",
        "rm -rf CANARY/inner",
        "mkdir CANARY/directory",
        "rmdir CANARY/inner/*; mv CANARY/inner CANARY/outer",
        "echo x > x; mv x CANARY/",
        "echo x > x; ln x CANARY/",
        "ln -s x CANARY/link",
        "mkfifo CANARY/pipe",
        "sed -i s/the/a/ CANARY/secret",
        "truncate -s 0 CANARY/secret",
        "perl -e 'truncate(\"CANARY/secret\", 1)'",
        "perl -e 'use Fcntl; sysopen(F, \"CANARY/secret\", O_RDONLY | O_TRUNC)'",
        "ln -s CANARY/secret link; echo x > link",
        "ln -s CANARY link; rm link/secret",
    ] {
        attempt(command).await;
    }
}

/// What Landlock has no right for.
fn metadata() -> Vec<String> {
    vec![
        "chmod 777 CANARY/secret".to_owned(),
        "chmod 755 CANARY".to_owned(),
        "chown $(id -u) CANARY/secret".to_owned(),
        "chgrp -h $(id -g) CANARY/secret".to_owned(),
        "touch -c -d 2001-01-01 CANARY/secret".to_owned(),
        format!("perl -e '$f = \"CANARY/secret\"; syscall({SYS_utimensat}, -100, $f, 0, 0)'"),
        format!(
            "perl -e '($f, $n, $v) = (\"CANARY/secret\", \"user.x\", \"y\"); syscall({SYS_setxattr}, $f, $n, $v, 1, 0)'"
        ),
    ]
}

#[tokio::test]
async fn modes_owners_times_and_attributes_elsewhere_stay() {
    for command in metadata() {
        attempt(&command).await;
    }
}

#[tokio::test]
async fn the_room_has_walls() {
    let lab = Lab::confined();
    lab.run("echo x > ../new; rm -rf ../lock ../home/../lock; mv ../home ../house; rm -rf ..; rmdir ../tmp")
        .await;
    let room = lab.room().await;
    let command =
        "echo x > ../new; rm -rf ../lock; mv ../home ../house; chmod 777 .. ; cat ../lock && echo read";
    let ran = lab.run_in(&room, command, super::DEADLINE, &Default::default()).await.unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["files", "home", "lock", "shm", "tmp"]);
    assert!(!ran.stdout.text().contains("read"));
}

#[tokio::test]
async fn devices_and_the_insides_of_the_kernel_are_out_of_reach() {
    let mut attempts = vec![
        "exec 3<> /dev/ptmx && echo ESCAPED",
        "cat /proc/self/environ > /dev/null && echo ESCAPED",
        "cat /proc/self/maps > /dev/null && echo ESCAPED",
        "cat /proc/version && echo ESCAPED",
        "ls /proc > /dev/null && echo ESCAPED",
        "ls /sys/kernel && echo ESCAPED",
        "ls /var /run /tmp; echo $? | grep -v 2 && echo ESCAPED",
        "cat /etc/hosts && echo ESCAPED",
    ];
    if is_root() {
        attempts.extend([
            "cat /etc/shadow > /dev/null && echo ESCAPED",
            "mknod device c 1 3 && echo ESCAPED",
            "mknod device b 7 0 && echo ESCAPED",
            "exec 3< /dev/kmsg && echo ESCAPED",
            "mkdir m; mount -t tmpfs none m && umount m && echo ESCAPED",
            "mkdir m; mount --bind CANARY m; cat m/secret; umount m",
            "chroot / /bin/true && echo ESCAPED",
            "dmesg > /dev/null && echo ESCAPED",
        ]);
    }
    for command in attempts {
        attempt(command).await;
    }
    // These have no control: one that succeeds does harm.
    let confined = Lab::confined();
    for command in ["reboot -f", "date -s 2001-01-01", "hostname weir", "echo b > /proc/sysrq-trigger"] {
        let ran = confined.run(&format!("{command} && echo {ESCAPED}")).await;
        assert!(!ran.stdout.text().contains(ESCAPED), "{command}");
    }
}

/// A project, or a home, may be below what commands may read.
#[tokio::test]
async fn what_is_hidden_is_not_read_even_below_what_is_readable() {
    let place = tempfile::tempdir().unwrap();
    let (data, link) = (place.path().join("share/project/.weir"), place.path().join("link"));
    std::fs::create_dir_all(data.join("blobs")).unwrap();
    std::fs::write(data.join("credentials.local"), super::SECRET).unwrap();
    for (name, content) in [("share/tool", "tool\n"), ("share/project/notes", "notes\n"), ("top", "top\n")] {
        std::fs::write(place.path().join(name), content).unwrap();
    }
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let command = format!(
        "cd {}; cat top share/tool share/project/notes share/project/.weir/credentials.local link/credentials.local",
        place.path().display()
    );
    let readable = |hidden: &[&std::path::Path]| {
        let mut lab = Lab::confined();
        let hidden = hidden.iter().map(|path| path.to_path_buf());
        lab.sandbox = lab.sandbox.with_readable([place.path().to_owned()]).with_hidden(hidden);
        lab
    };
    let all = format!("top\ntool\nnotes\n{0}{0}", super::SECRET);
    assert_eq!(readable(&[]).run(&command).await.stdout.text(), all);
    // By its own name, and by another one.
    for hidden in [&data, &link] {
        assert_eq!(readable(&[hidden]).run(&command).await.stdout.text(), "top\ntool\nnotes\n");
    }
    assert_eq!(readable(&[place.path()]).run(&command).await.stdout.text(), "");
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(readable(&[elsewhere.path()]).run(&command).await.stdout.text(), all);
}

/// Shared memory is there, and nobody else's.
#[tokio::test]
async fn shared_memory_is_not_shared_with_others() {
    let (theirs, ours) =
        (tempfile::NamedTempFile::new_in("/dev/shm").unwrap(), format!("weir-{}", super::marker()));
    std::fs::write(theirs.path(), super::SECRET).unwrap();
    let command = format!("cat {}; echo x > /dev/shm/{ours} && cat /dev/shm/{ours}", theirs.path().display());
    let outside = std::path::Path::new("/dev/shm").join(&ours);
    let free = Lab::new(Enforcement::Off).prints(&command).await;
    assert_eq!((free, outside.exists()), (format!("{}x\n", super::SECRET), true));
    std::fs::remove_file(&outside).unwrap();
    assert_eq!(Lab::confined().run(&command).await.stdout.text(), "x\n");
    assert!(!outside.exists());
}

/// By a handle, a file is opened without a path: past everything that looks at paths.
#[tokio::test]
async fn a_handle_opens_nothing() {
    let name_to_handle = libc::SYS_name_to_handle_at;
    let command = format!(
        "perl -e '$h = pack(\"Ii\", 120, 0) . (\"\\0\" x 120); $m = pack(\"i\", 0); \
         $p = \"CANARY/secret\"; syscall({name_to_handle}, -100, $p, $h, $m, 0); \
         open(D, \"<\", $ARGV[0]); $f = syscall({SYS_open_by_handle_at}, fileno(D), $h, 0); \
         open(F, \"<&=\", $f) and print <F>' ."
    );
    if is_root() {
        attempt_in(&Lab::new(Enforcement::Off), &command, true).await;
    }
    attempt_in(&Lab::confined(), &command, false).await;
}

#[tokio::test]
async fn ordinary_work_is_not_in_the_way() {
    let lab = Lab::confined();
    for (command, expected) in [
        ("echo a > f; mkdir d; mv f d/g; ln d/g h; ln -s h l; cat l", "a\n"),
        ("echo x > f; chmod 755 f; touch -d 2001-01-01 f; stat -c '%a %Y' f", "755 978307200\n"),
        ("echo hello > ~/f; cp ~/f $TMPDIR/g; cat $TMPDIR/g", "hello\n"),
        ("cat <(echo one) <(echo two)", "one\ntwo\n"),
        ("echo to-stderr > /dev/stderr; echo to-stdout > /dev/stdout", "to-stdout\n"),
        ("head -c 3 /dev/zero | wc -c; echo gone > /dev/null; head -c 4 /dev/urandom | wc -c", "3\n4\n"),
        ("timeout 0.1 sleep 100; echo $?", "124\n"),
        ("sleep 100 & kill $!; wait $!; echo $?", "143\n"),
        ("mktemp > /dev/null && id -un > /dev/null && date > /dev/null && echo fine", "fine\n"),
        (
            "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; syswrite(A, \"pair\"); sysread(B, $x, 9); print $x'",
            "pair",
        ),
        (
            "setsid -w echo background; perl -e 'use POSIX; setsid and setpgid(0, 0); print 1'",
            "background\n1",
        ),
        ("mkfifo p; echo through > p & cat p", "through\n"),
        ("printf 'int main(){return 0;}' > a.c; echo compiled", "compiled\n"),
        ("ulimit -n 100; ulimit -n", "100\n"),
        ("cat; echo no-input", "no-input\n"),
    ] {
        assert_eq!(lab.prints(command).await, expected, "{command}");
    }
}

/// The same attempts where the kernel lets nobody into a namespace: then such calls do nothing anywhere, the room included.
#[test]
fn without_namespaces_metadata_stays_all_the_same() {
    super::kernels::without(&[libc::SYS_unshare], libc::EPERM, async {
        let lab = Lab::confined();
        let support = lab.sandbox.support().await.unwrap();
        assert!(!support.rest_read_only, "{support:?}");
        for command in metadata() {
            attempt_in(&lab, &command, false).await;
        }
        // It is not said that nothing happened, or half of all programs would give up.
        assert_eq!(
            lab.prints("echo x > f; old=$(stat -c %a f); chmod 751 f && [ $old = $(stat -c %a f) ] && cat f")
                .await,
            "x\n"
        );
    });
}
