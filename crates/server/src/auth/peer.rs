//! Which user of this machine a connection belongs to. The kernel is asked, by `NETLINK_SOCK_DIAG`, for the socket at the other
//! end: one datagram there and one back, and the kernel answers before the first call returns.
//!
//! Only a socket that some process has open is believed. For one that was closed the kernel names user 0, which would be root.

use std::net::{IpAddr, SocketAddr};

/// The user at the other end of a connection on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PeerUser {
    /// The user that the server runs as, or root.
    Owner,
    /// Another user.
    Other,
    /// It cannot be told: the connection is closed by now, or the system does not say.
    #[default]
    Unknown,
}

/// Asks the kernel whose connections these are.
#[cfg(target_os = "linux")]
pub(crate) struct PeerUsers {
    kernel: Option<linux::Diagnosis>,
    own: u32,
}

#[cfg(target_os = "linux")]
impl PeerUsers {
    pub(crate) fn new() -> Self {
        let own = rustix::process::geteuid().as_raw();
        Self { kernel: linux::Diagnosis::open().ok().filter(|_| linux::tells_users_apart(own)), own }
    }

    /// Whose socket is at the other end. `peer` is its address, `local` the one it is connected to.
    pub(crate) fn of(&self, peer: SocketAddr, local: SocketAddr) -> PeerUser {
        let user = self.kernel.as_ref().and_then(|kernel| kernel.user_of(canonical(peer), canonical(local)));
        match user {
            Some(user) if user == self.own || user == 0 => PeerUser::Owner,
            Some(_) => PeerUser::Other,
            None => PeerUser::Unknown,
        }
    }
}

/// Systems that are not asked.
#[cfg(not(target_os = "linux"))]
pub(crate) struct PeerUsers;

#[cfg(not(target_os = "linux"))]
impl PeerUsers {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn of(&self, _peer: SocketAddr, _local: SocketAddr) -> PeerUser {
        PeerUser::Unknown
    }
}

/// Whether this system tells which user a connection on this machine belongs to: it is tried with one of our own.
pub fn tells_peer_users() -> bool {
    let own = || {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        Ok::<_, std::io::Error>(PeerUsers::new().of(client.local_addr()?, client.peer_addr()?))
    };
    own().is_ok_and(|user| user == PeerUser::Owner)
}

/// An address of the older family that is written as one of the newer is looked up as what it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use rustix::fd::OwnedFd;
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    };

    use super::{IpAddr, SocketAddr};

    /// `SOCK_DIAG_BY_FAMILY`, the question and the answer.
    const BY_FAMILY: u16 = 20;
    /// `NLM_F_REQUEST`.
    const REQUEST: u16 = 1;
    /// A header, the request, and the addresses in it.
    const HEADER: usize = 16;
    const REQUEST_BYTES: usize = HEADER + 56;
    /// Where the answer has what is looked at.
    const ANSWER_STATE: usize = HEADER + 1;
    const ANSWER_ID: usize = HEADER + 4;
    const ANSWER_USER: usize = HEADER + 64;
    const ANSWER_INODE: usize = HEADER + 68;
    const ANSWER_BYTES: usize = HEADER + 72;
    /// Ports and addresses at the beginning of an id.
    const ID_ADDRESSES: usize = 36;
    /// `TCP_ESTABLISHED`, and the states of a socket of which one direction was shut down while a process has it open.
    const OPEN_STATES: [u8; 4] = [1, 4, 5, 8];
    const TCP: u8 = 6;
    /// How many answers to other questions are passed over.
    const STALE_MAX: usize = 16;

    /// A socket to the kernel's list of sockets. There is one for all connections, so that it is there when files are short.
    pub(super) struct Diagnosis(Mutex<(OwnedFd, u32)>);

    impl Diagnosis {
        pub(super) fn open() -> io::Result<Self> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let kind = SocketType::RAW;
            let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(netlink::SOCK_DIAG))?;
            Ok(Self(Mutex::new((socket, 0))))
        }

        /// The user of the socket with this address of its own, connected to the other one; nothing, if no process has such a socket
        /// open.
        pub(super) fn user_of(&self, own: SocketAddr, connected_to: SocketAddr) -> Option<u32> {
            let id = id(own, connected_to)?;
            let mut kernel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (socket, sequence) = &mut *kernel;
            *sequence = sequence.wrapping_add(1);
            let question = question(own, &id, *sequence);
            send(&*socket, &question, SendFlags::empty()).ok()?;
            for _ in 0..STALE_MAX {
                let mut answer = [0; 1_024];
                let (length, _) = recv(&*socket, &mut answer[..], RecvFlags::empty()).ok()?;
                let answer = answer.get(..length)?;
                if number(answer, 8)? == *sequence {
                    return user_in(answer, &id);
                }
            }
            None
        }
    }

    /// Ports and addresses, as the kernel writes them.
    fn id(own: SocketAddr, connected_to: SocketAddr) -> Option<[u8; ID_ADDRESSES]> {
        let mut id = [0; ID_ADDRESSES];
        id[..2].copy_from_slice(&own.port().to_be_bytes());
        id[2..4].copy_from_slice(&connected_to.port().to_be_bytes());
        match (own.ip(), connected_to.ip()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                id[4..8].copy_from_slice(&own.octets());
                id[20..24].copy_from_slice(&other.octets());
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                id[4..20].copy_from_slice(&own.octets());
                id[20..36].copy_from_slice(&other.octets());
            }
            _ => return None,
        }
        Some(id)
    }

    fn question(own: SocketAddr, id: &[u8; ID_ADDRESSES], sequence: u32) -> [u8; REQUEST_BYTES] {
        let mut question = [0; REQUEST_BYTES];
        question[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
        question[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        question[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        question[8..12].copy_from_slice(&sequence.to_ne_bytes());
        let family = if own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        question[HEADER] = family.as_raw() as u8;
        question[HEADER + 1] = TCP;
        // Sockets in every state: what counts is checked in the answer.
        question[HEADER + 4..HEADER + 8].copy_from_slice(&u32::MAX.to_ne_bytes());
        question[HEADER + 8..HEADER + 8 + ID_ADDRESSES].copy_from_slice(id);
        // No interface, and no cookie (`INET_DIAG_NOCOOKIE`).
        question[REQUEST_BYTES - 8..].fill(0xff);
        question
    }

    /// The user in an answer, if it is about this very connection and some process has its socket open.
    fn user_in(answer: &[u8], id: &[u8; ID_ADDRESSES]) -> Option<u32> {
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        let is_it = kind == BY_FAMILY
            && answer.len() >= ANSWER_BYTES
            && is_of(answer.get(ANSWER_ID..ANSWER_ID + ID_ADDRESSES)?, id)
            && OPEN_STATES.contains(answer.get(ANSWER_STATE)?);
        // A socket that no process has open any more has no inode, and user 0.
        (is_it && number(answer, ANSWER_INODE)? != 0).then(|| number(answer, ANSWER_USER))?
    }

    /// Whether an answer is about this connection. A socket of the newer family that speaks the older one has its addresses in the newer form.
    fn is_of(answered: &[u8], id: &[u8; ID_ADDRESSES]) -> bool {
        let mut mapped = [0; ID_ADDRESSES];
        mapped[..4].copy_from_slice(&id[..4]);
        for at in [4, 20] {
            mapped[at + 10..at + 12].fill(0xff);
            mapped[at + 12..at + 16].copy_from_slice(&id[at..at + 4]);
        }
        let is_of_the_older = id[8..20] == [0; 12] && id[24..] == [0; 12];
        answered == id || (is_of_the_older && answered == mapped)
    }

    fn number(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    }

    /// In a user namespace, the kernel names all users that the namespace does not know by one number. A server that runs as that
    /// one cannot tell itself from them.
    pub(super) fn tells_users_apart(own: u32) -> bool {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let overflow = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(65_534);
        let knows_all = read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
        own != overflow || knows_all
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    fn connected(listen: impl Into<IpAddr>, connect: impl Into<IpAddr>) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind((listen.into(), 0)).ok()?;
        let client = TcpStream::connect((connect.into(), listener.local_addr().ok()?.port())).ok()?;
        Some((client, listener.accept().ok()?.0))
    }

    fn of(server: &TcpStream) -> PeerUser {
        let (peer, local) = (server.peer_addr(), server.local_addr());
        peer.and_then(|peer| Ok(PeerUsers::new().of(peer, local?))).unwrap_or_default()
    }

    #[test]
    fn connections_of_this_user_are_known_in_both_families() {
        assert!(tells_peer_users());
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        for (listen, connect) in [(v4, v4), (v4, mapped.into()), (mapped.into(), v4), (v6, v6)] {
            // A machine without the newer family has no such addresses.
            let Some((client, server)) = connected(listen, connect) else {
                assert!(listen.is_ipv6() || connect.is_ipv6());
                continue;
            };
            assert_eq!(of(&server), PeerUser::Owner, "{listen} {connect}");
            // One direction is shut down; the socket is still open.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(of(&server), PeerUser::Owner, "{listen} {connect}");
        }
    }

    #[test]
    fn what_was_closed_belongs_to_nobody() {
        for _ in 0..50 {
            let (client, server) = connected(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST).unwrap();
            drop(client);
            assert_eq!(of(&server), PeerUser::Unknown);
        }
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(PeerUsers::new().of(nowhere, nowhere), PeerUser::Unknown);
        // A listener on that port is not the other end of anything.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(PeerUsers::new().of(address, nowhere), PeerUser::Unknown);
    }
}
