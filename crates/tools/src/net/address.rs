//! Addresses: which are the public internet, which are somebody's own network, and which nobody means.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Realm {
    /// The internet.
    Public,
    /// A network of one's own: RFC 1918 and unique local addresses.
    Private,
    /// This machine.
    Loopback,
    /// Link-local (where clouds keep their metadata), shared, reserved, multicast, or a way to write another address.
    Special,
}

/// Where an address leads. Ways to write an IPv4 address as IPv6 count as what they stand for, if that is public.
pub(super) fn realm(address: IpAddr) -> Realm {
    match address {
        IpAddr::V4(v4) => realm_v4(v4),
        IpAddr::V6(v6) => realm_v6(v6),
    }
}

fn realm_v4(address: Ipv4Addr) -> Realm {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Realm::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Realm::Private,
        // "This" network; carrier-grade NAT, where one cloud has its metadata; link-local, where the others have it.
        (0, ..) | (100, 64..=127, _) | (169, 254, _) => Realm::Special,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => {
            Realm::Special
        }
        // Multicast, reserved, broadcast.
        (224.., ..) => Realm::Special,
        _ => Realm::Public,
    }
}

/// The metadata services of clouds that sit among unique local addresses.
const METADATA: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

fn realm_v6(address: Ipv6Addr) -> Realm {
    if address == Ipv6Addr::LOCALHOST {
        return Realm::Loopback;
    }
    if METADATA.contains(&address) {
        return Realm::Special;
    }
    let segments = address.segments();
    match segments {
        // IPv4 written as IPv6 is what it stands for: the operating system connects to that.
        [0, 0, 0, 0, 0, 0xffff, ..] => realm_v4(embedded(segments)),
        // NAT64: a network without IPv4 reaches the public part of it this way, and must reach no other part.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => match realm_v4(embedded(segments)) {
            Realm::Public => Realm::Public,
            Realm::Private | Realm::Loopback | Realm::Special => Realm::Special,
        },
        [0xfc00..=0xfdff, ..] => Realm::Private,
        // Protocol assignments with Teredo among them, documentation, 6to4, documentation again.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => {
            Realm::Special
        }
        // Of all the rest, this is what is handed out.
        [0x2000..=0x3fff, ..] => Realm::Public,
        _ => Realm::Special,
    }
}

fn embedded(segments: [u16; 8]) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(segments[6]) << 16 | u32::from(segments[7]))
}

/// `localhost` and the names under it.
pub(super) fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Names that no public name server can answer for: whoever lists one means something in a network of their own, such as
/// a container beside this one.
pub(super) fn is_private_name(name: &str) -> bool {
    const SUFFIXES: [&str; 3] = [".internal", ".local", ".home.arpa"];
    !name.contains('.') || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Whether a name may lead to an address: to the internet always; into a network of one's own if the name is of such a
/// network; anywhere if the address itself is listed. Everything else is a name that somebody pointed at what is ours.
pub(super) fn may_lead_to(name: &str, address: IpAddr, listed: &[IpAddr]) -> bool {
    if listed.contains(&address.to_canonical()) {
        return true;
    }
    match realm(address) {
        Realm::Public => !is_localhost(name),
        Realm::Private => is_private_name(name) && !is_localhost(name),
        Realm::Loopback => is_localhost(name),
        Realm::Special => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_address_is_seen_through() {
        let check = |text: &str, expected: Realm| {
            assert_eq!(realm(text.parse().unwrap()), expected, "{text}");
        };
        for public in ["1.1.1.1", "9.255.255.255", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1"] {
            check(public, Realm::Public);
        }
        for public in
            ["2606:4700::1111", "2a00::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2001:4860:4860::8888"]
        {
            check(public, Realm::Public);
        }
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "fc00::1",
            "fd12::1",
            "::ffff:10.0.0.1",
        ] {
            check(private, Realm::Private);
        }
        for loopback in ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"] {
            check(loopback, Realm::Loopback);
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            check(special, Realm::Special);
            check(&format!("::ffff:{special}"), Realm::Special);
            check(&format!("64:ff9b::{special}"), Realm::Special);
        }
        for special in [
            "::",
            "::127.0.0.1",
            "::2",
            "64:ff9b::10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:101:101::",
            "3fff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "5f00::1",
            "4000::1",
        ] {
            check(special, Realm::Special);
        }
    }

    #[test]
    fn a_name_leads_where_its_kind_of_name_may() {
        let check = |name: &str, address: &str, listed: &[&str], expected: bool| {
            let listed: Vec<IpAddr> = listed.iter().map(|each| each.parse().unwrap()).collect();
            assert_eq!(may_lead_to(name, address.parse().unwrap(), &listed), expected, "{name} {address}");
        };
        check("api.example.com", "1.1.1.1", &[], true);
        for ours in ["10.0.0.1", "127.0.0.1", "::1", "169.254.169.254", "fd00::1", "::ffff:10.0.0.1"] {
            check("api.example.com", ours, &[], false);
            check("api.example.com", ours, &["10.0.0.2"], false);
        }
        check("api.example.com", "10.0.0.1", &["10.0.0.1"], true);
        check("api.example.com", "::ffff:10.0.0.1", &["10.0.0.1"], true);
        for name in ["weather", "weather.svc.cluster.local", "db.internal", "nas.home.arpa"] {
            check(name, "10.0.0.1", &[], true);
            check(name, "fd12::1", &[], true);
            check(name, "127.0.0.1", &[], false);
            check(name, "169.254.169.254", &[], false);
            check(name, "fd00:ec2::254", &[], false);
        }
        check("localhost", "127.0.0.1", &[], true);
        check("app.localhost", "::1", &[], true);
        check("localhost", "10.0.0.1", &[], false);
        check("localhost", "1.1.1.1", &[], false);
        check("notlocalhost.com", "127.0.0.1", &[], false);
    }
}
