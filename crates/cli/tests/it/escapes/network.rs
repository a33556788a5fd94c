//! Sockets of every kind: nobody outside hears anything, and nothing inside listens.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::time::Duration;

use weir_tools::Enforcement;

use super::{Lab, attempt, marker};

/// Servers of every kind on this machine. Nothing is ever accepted: whether somebody called is seen all the same.
struct Servers {
    tcp: TcpListener,
    udp: UdpSocket,
    directory: tempfile::TempDir,
    stream: UnixListener,
    datagram: UnixDatagram,
    hidden: UnixListener,
    hidden_datagram: UnixDatagram,
    name: String,
}

impl Servers {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("weir-canary-{}", marker());
        let hidden = |suffix: &str| SocketAddr::from_abstract_name(format!("{name}{suffix}")).unwrap();
        let servers = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream: UnixListener::bind(directory.path().join("stream")).unwrap(),
            datagram: UnixDatagram::bind(directory.path().join("datagram")).unwrap(),
            hidden: UnixListener::bind_addr(&hidden("s")).unwrap(),
            hidden_datagram: UnixDatagram::bind_addr(&hidden("d")).unwrap(),
            directory,
            name,
        };
        servers.tcp.set_nonblocking(true).unwrap();
        servers.stream.set_nonblocking(true).unwrap();
        servers.hidden.set_nonblocking(true).unwrap();
        let moment = Some(Duration::from_millis(50));
        servers.udp.set_read_timeout(moment).unwrap();
        servers.datagram.set_read_timeout(moment).unwrap();
        servers.hidden_datagram.set_read_timeout(moment).unwrap();
        servers
    }

    /// Whether anybody called. By the end of the command, whatever it sent has arrived: this is one machine.
    fn heard(&self) -> bool {
        let mut byte = [0];
        self.tcp.accept().is_ok()
            || self.stream.accept().is_ok()
            || self.hidden.accept().is_ok()
            || self.udp.recv(&mut byte).is_ok()
            || self.datagram.recv(&mut byte).is_ok()
            || self.hidden_datagram.recv(&mut byte).is_ok()
    }

    fn told(&self, command: &str) -> String {
        let port = |address: std::net::SocketAddr| address.port().to_string();
        command
            .replace("TCP", &port(self.tcp.local_addr().unwrap()))
            .replace("UDP", &port(self.udp.local_addr().unwrap()))
            .replace("DIRECTORY", self.directory.path().to_str().unwrap())
            .replace("NAME", &self.name)
    }
}

#[tokio::test]
async fn nobody_is_called() {
    let perl = |code: &str| format!("perl -e 'use Socket; {code}'");
    for command in [
        "echo x > /dev/tcp/127.0.0.1/TCP".to_owned(),
        "echo x > /dev/udp/127.0.0.1/UDP".to_owned(),
        perl("socket(S, AF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(TCP, INADDR_LOOPBACK))"),
        perl("socket(S, AF_INET, SOCK_DGRAM, 0); send(S, \"x\", 0, sockaddr_in(UDP, INADDR_LOOPBACK))"),
        perl("socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un(\"DIRECTORY/stream\"))"),
        perl("socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, \"x\", 0, sockaddr_un(\"DIRECTORY/datagram\"))"),
        perl("socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"Sa*\", AF_UNIX, \"\\0NAMEs\"))"),
        perl("socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, \"x\", 0, pack(\"Sa*\", AF_UNIX, \"\\0NAMEd\"))"),
        // A pair is made without `socket`, and one of datagrams can be sent from to anybody.
        perl(
            "socketpair(S, T, AF_UNIX, SOCK_DGRAM, 0); send(S, \"x\", 0, sockaddr_un(\"DIRECTORY/datagram\"))",
        ),
        perl(
            "socketpair(S, T, AF_UNIX, SOCK_RAW, 0); send(S, \"x\", 0, sockaddr_un(\"DIRECTORY/datagram\"))",
        ),
        perl(
            "socketpair(S, T, AF_UNIX, SOCK_DGRAM, 0); connect(S, pack(\"Sa*\", AF_UNIX, \"\\0NAMEd\")); syswrite(S, \"x\")",
        ),
    ] {
        for (enforcement, heard) in [(Enforcement::Off, true), (Enforcement::Required, false)] {
            let servers = Servers::new();
            let ran = Lab::new(enforcement).run(&servers.told(&command)).await;
            assert_eq!(servers.heard(), heard, "{command} {enforcement:?} {}", ran.stderr.text());
        }
    }
}

#[tokio::test]
async fn nothing_listens() {
    for command in [
        "perl -e 'use Socket; socket(S, AF_INET, SOCK_STREAM, 0) and bind(S, sockaddr_in(0, INADDR_LOOPBACK)) and listen(S, 1) and print \"ESCAPED\"'",
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) and bind(S, sockaddr_un(\"s\")) and listen(S, 1) and print \"ESCAPED\"'",
        "perl -e 'use Socket; socketpair(S, T, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"s\")) and print \"ESCAPED\"'",
    ] {
        attempt(command).await;
    }
}

#[tokio::test]
async fn there_is_no_socket_of_any_family() {
    let command =
        "perl -e 'for $f (0..50) { for $t (1, 2, 3, 5) { socket(S, $f, $t, 0) and print \"$f/$t \" } }'";
    let free = Lab::new(Enforcement::Off).prints(command).await;
    for family in ["1/1", "1/2", "2/1", "2/2", "16/3"] {
        assert!(free.split(' ').any(|made| made == family), "{family}: {free}");
    }
    assert_eq!(Lab::confined().prints(command).await, "");
}

#[tokio::test]
async fn there_is_no_way_around_system_calls() {
    // `io_uring` makes sockets without `socket`; 4096 bytes are more than its parameters take.
    let setup = libc::SYS_io_uring_setup;
    attempt(&format!("perl -e '$p = \"\\0\" x 4096; syscall({setup}, 1, $p) >= 0 and print \"ESCAPED\"'"))
        .await;
    let memfd = libc::SYS_memfd_create;
    attempt(&format!("perl -e '$n = \"x\"; syscall({memfd}, $n, 0) >= 0 and print \"ESCAPED\"'")).await;
    // Numbers of x32, `socket` among them, where the kernel has them; and calls that nobody has heard of yet.
    let confined = Lab::confined();
    let command = "perl -e 'for $n (0x40000000 + 41, 0x40000000 + 39, 463, 5000) { \
                   $! = 0; $r = syscall($n, 2, 1, 0); print $r, \" \", $! + 0, \"\\n\" }'";
    assert_eq!(confined.prints(command).await, "-1 38\n".repeat(4));
}
