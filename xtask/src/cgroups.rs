//! The tests of the sandbox on a kernel that has cgroup v2 for memory, which many test machines lack. The kernel is one of Debian's packages,
//! and QEMU emulates the machine. The machine sees this one's disk through virtiofs; what it writes stays in its memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::{self, Ended};
use crate::{Outcome, must};

/// `cargo xtask cgroups`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A package of a Linux kernel, 6.2 or newer, for this processor: `apt-get download linux-image-VERSION-cloud-amd64`
    #[arg(long, value_name = "FILE.deb")]
    kernel: PathBuf,
    /// Parts of names of tests, all of the sandbox's by default
    tests: Vec<String>,
}

/// An emulated processor takes ten times as long.
const RUN_CAP: Duration = Duration::from_secs(60 * 60);
const STEP_CAP: Duration = Duration::from_secs(60);

/// What the kernel needs to see the disk, in the order in which it is loaded. Kernels have some of them built in.
const MODULES: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "fuse",
    "virtiofs",
    "overlay",
];

/// The first process of the machine. The tests run in a group of their own, since controllers are handed on only where no process is.
const INIT: &str = r#"#!/busybox sh
/busybox mkdir -p /bin /proc /sys /dev /host /own /root
/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
dmesg -n 1
for module in $(cat /order); do insmod /modules/$module; done
mount -t virtiofs host /host
mount -t tmpfs -o size=1g own /own; mkdir /own/upper /own/work
mount -t overlay -o lowerdir=/host,upperdir=/own/upper,workdir=/own/work root /root
for directory in proc sys dev; do mount --move /$directory /root/$directory; done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts pts /root/dev/pts; mount -t tmpfs shm /root/dev/shm; mount -t tmpfs tmp /root/tmp
mount -t cgroup2 cgroup /root/sys/fs/cgroup
mkdir /root/sys/fs/cgroup/tests; echo $$ > /root/sys/fs/cgroup/tests/cgroup.procs
ip link set lo up
cat /job > /root/tmp/job
chroot /root /bin/bash /tmp/job && echo "cgroups: all tests passed"
echo o > /root/proc/sysrq-trigger
sleep 60
"#;

/// The line by which the machine says that all went well.
const PASSED: &str = "cgroups: all tests passed";

pub(crate) fn run(root: &Path, args: &Args) -> Outcome {
    let programs = Programs::find()?;
    let binaries = build_tests(root)?;
    let place = process::target(root).join("cgroups");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    let place = std::path::absolute(place)?;
    let kernel = unpack(&args.kernel, &place)?;
    let job = job(root, &place, &binaries, &args.tests)?;
    let image = initial_files(&programs, &place, &kernel, &job)?;
    let socket = place.join("disk.socket");
    let mut disk = share_disk(&programs, &socket)?;
    let ran = boot(&kernel, &image, &socket, &place);
    // It ends by itself when the machine does; if there never was one, it is still there.
    let _ = disk.kill();
    disk.wait()?;
    ran
}

/// Programs of the machine that are needed.
struct Programs {
    disk: PathBuf,
    busybox: PathBuf,
}

impl Programs {
    fn find() -> Outcome<Self> {
        let need = "install the packages qemu-system-x86 (its virtiofsd, of QEMU 7, included), busybox-static, cpio and xz-utils";
        let find = |places: &[&str]| {
            let found = places.iter().map(PathBuf::from).find(|place| place.exists());
            found.ok_or_else(|| format!("`{}` is not here: {need}", places.join("` or `")))
        };
        find(&["/usr/bin/qemu-system-x86_64"])?;
        find(&["/usr/bin/cpio", "/bin/cpio"])?;
        Ok(Self {
            disk: find(&["/usr/lib/qemu/virtiofsd"])?,
            busybox: find(&["/usr/bin/busybox", "/bin/busybox"])?,
        })
    }
}

/// The programs with the tests: those about control groups alone, and those about the sandbox anywhere.
fn build_tests(root: &Path) -> Outcome<[PathBuf; 2]> {
    let build = |test: &str| -> Outcome<PathBuf> {
        let mut cargo = process::cargo();
        // The whole workspace, as the other tests are built: one package alone would compile its dependencies anew.
        cargo.args([
            "test",
            "--workspace",
            "--all-features",
            "--no-run",
            "--message-format=json",
            "--test",
            test,
        ]);
        let output = cargo.current_dir(root).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the tests cannot be built: {}", output.status).into());
        }
        let messages = output.stdout.split(|byte| *byte == b'\n');
        let made = messages
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .find_map(|message| {
                let is_it = message["target"]["name"] == *test
                    && message["manifest_path"].as_str().is_some_and(|path| path.ends_with("cli/Cargo.toml"));
                message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
            });
        made.ok_or_else(|| format!("cargo did not say where the tests `{test}` are").into())
    };
    Ok([build("control_group")?, build("it")?])
}

/// What the machine runs. One test at a time: the processor is slow, and one test's commands are another one's.
fn job(root: &Path, place: &Path, [groups, all]: &[PathBuf; 2], wanted: &[String]) -> Outcome<String> {
    // A tenth of the program is code; the rest would be read through virtiofs for each command.
    let program = std::path::absolute(process::target(root).join("debug/weir"))?;
    let small = place.join("weir");
    must(Command::new("strip").arg("-o").arg(&small).arg(&program), STEP_CAP)?;
    let wanted: String = wanted.iter().map(|name| format!(" '{}'", name.replace('\'', ""))).collect();
    let of_sandbox = if wanted.is_empty() { " escapes::" } else { &wanted };
    let [program, small, groups, all] = [&program, &small, groups, all].map(|path| path.display());
    let directory = root.join("crates/cli");
    Ok(format!(
        "export HOME=/root PATH=/usr/local/bin:/usr/bin:/bin\n\
         uname -r; cat /sys/fs/cgroup/cgroup.controllers\n\
         rm '{program}' && cp '{small}' '{program}' && cd '{}' &&\n\
         '{groups}' --test-threads 1{wanted} &&\n\
         '{all}' --test-threads 1{of_sandbox}\n",
        directory.display(),
    ))
}

struct Kernel {
    image: PathBuf,
    modules: PathBuf,
}

fn unpack(package: &Path, place: &Path) -> Outcome<Kernel> {
    let unpacked = place.join("kernel");
    fs::create_dir_all(&unpacked)?;
    must(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked), STEP_CAP)?;
    let image = only_entry(&unpacked.join("boot"), "vmlinuz-")?;
    let libraries = [unpacked.join("usr/lib/modules"), unpacked.join("lib/modules")];
    let modules = libraries.iter().find(|directory| directory.exists());
    let modules = modules.ok_or_else(|| format!("{} has no modules", package.display()))?;
    Ok(Kernel { image, modules: only_entry(modules, "")? })
}

fn only_entry(directory: &Path, prefix: &str) -> Outcome<PathBuf> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = entries.find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    });
    found.ok_or_else(|| format!("{} has no `{prefix}…`", directory.display()).into())
}

/// The archive of files that the machine begins with.
fn initial_files(programs: &Programs, place: &Path, kernel: &Kernel, job: &str) -> Outcome<PathBuf> {
    let files = place.join("files");
    let modules = files.join("modules");
    fs::create_dir_all(&modules)?;
    fs::copy(&programs.busybox, files.join("busybox"))?;
    fs::write(files.join("init"), INIT)?;
    fs::set_permissions(files.join("init"), fs::Permissions::from_mode(0o755))?;
    fs::write(files.join("job"), job)?;
    let mut order = String::new();
    for name in MODULES {
        let Some(module) = find_module(&kernel.modules, name)? else { continue };
        let compressed = module.extension().is_some_and(|extension| extension == "xz");
        let copy = modules.join(format!("{name}.ko{}", if compressed { ".xz" } else { "" }));
        fs::copy(module, &copy)?;
        if compressed {
            must(Command::new("xz").arg("-d").arg(&copy), STEP_CAP)?;
        }
        order += &format!("{name}.ko\n");
    }
    fs::write(files.join("order"), order)?;
    let archive = place.join("files.cpio");
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | cpio --create --format newc --quiet --owner 0:0 > \"$0\""]);
    must(pack.arg(&archive).current_dir(&files), STEP_CAP)?;
    Ok(archive)
}

/// A module by its name, anywhere below.
fn find_module(directory: &Path, name: &str) -> Outcome<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_it = path.file_name().and_then(|file| file.to_str()).is_some_and(|file| {
            file.strip_prefix(name).is_some_and(|rest| rest == ".ko" || rest == ".ko.xz")
        });
        if is_it {
            return Ok(Some(path));
        }
        let is_directory = fs::symlink_metadata(&path)?.is_dir();
        if let Some(found) = if is_directory { find_module(&path, name)? } else { None } {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Shares the disk with the machine. It can write nothing there: an overlay in its own memory takes what it writes.
fn share_disk(programs: &Programs, socket: &Path) -> Outcome<Child> {
    let mut share = Command::new(&programs.disk);
    share.arg(format!("--socket-path={}", socket.display()));
    share.args(["-o", "source=/", "-o", "sandbox=chroot", "-o", "cache=auto", "-o", "no_flock"]);
    let mut child = share.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let began = std::time::Instant::now();
    while !socket.exists() {
        if child.try_wait()?.is_some() || began.elapsed() > STEP_CAP {
            return Err("the disk cannot be shared with the machine: virtiofsd needs root".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(child)
}

fn boot(kernel: &Kernel, files: &Path, socket: &Path, place: &Path) -> Outcome {
    let said = place.join("console.txt");
    let mut machine = Command::new("qemu-system-x86_64");
    // QEMU 7 emulates `cmpxchg16b` wrongly.
    machine.args([
        "-M",
        "q35",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max,cx16=off",
        "-smp",
        "2",
        "-m",
        "4096",
    ]);
    machine.args([
        "-object",
        "memory-backend-memfd,id=memory,size=4096M,share=on",
        "-numa",
        "node,memdev=memory",
    ]);
    machine.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(files);
    machine.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
    machine.args(["-nodefaults", "-no-reboot", "-display", "none", "-chardev"]);
    machine.arg(format!("stdio,id=console,signal=off,logfile={}", said.display()));
    machine.args(["-serial", "chardev:console", "-chardev"]);
    machine.arg(format!("socket,id=disk,path={}", socket.display()));
    machine.args(["-device", "vhost-user-fs-pci,queue-size=1024,chardev=disk,tag=host"]);
    match process::run(&mut machine, RUN_CAP)? {
        Ended::Well => {}
        how => return Err(format!("the machine {how}").into()),
    }
    let said = fs::read(&said)?;
    if String::from_utf8_lossy(&said).lines().any(|line| line.trim_end() == PASSED) {
        return Ok(());
    }
    Err("a test failed in the virtual machine; its output is above".into())
}
