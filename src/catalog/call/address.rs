//! Public IP addresses: those that are reachable from everywhere, and not only from this machine or its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address blocks that are not public (IANA's registries of special-purpose addresses, RFC 6890), each with the rule
/// that refuses it. The first block that contains an address determines the rule.
const NON_PUBLIC_V4_BLOCKS: &[(&str, u8, [u8; 4])] = &[
    ("metadata", 32, [169, 254, 169, 254]),
    ("unspecified", 8, [0, 0, 0, 0]),
    ("private", 8, [10, 0, 0, 0]),
    ("shared", 10, [100, 64, 0, 0]),
    ("loopback", 8, [127, 0, 0, 0]),
    ("link_local", 16, [169, 254, 0, 0]),
    ("private", 12, [172, 16, 0, 0]),
    ("reserved", 24, [192, 0, 0, 0]),
    ("documentation", 24, [192, 0, 2, 0]),
    ("6to4", 24, [192, 88, 99, 0]),
    ("private", 16, [192, 168, 0, 0]),
    ("benchmarking", 15, [198, 18, 0, 0]),
    ("documentation", 24, [198, 51, 100, 0]),
    ("documentation", 24, [203, 0, 113, 0]),
    ("multicast", 4, [224, 0, 0, 0]),
    ("broadcast", 32, [255, 255, 255, 255]),
    ("reserved", 4, [240, 0, 0, 0]),
];

/// The same for IPv6. Addresses that embed an IPv4 address are refused whatever that address is, because there is no
/// need to call them.
const NON_PUBLIC_V6_BLOCKS: &[(&str, u8, [u16; 8])] = &[
    ("unspecified", 128, [0, 0, 0, 0, 0, 0, 0, 0]),
    ("loopback", 128, [0, 0, 0, 0, 0, 0, 0, 1]),
    ("v4_mapped", 96, [0, 0, 0, 0, 0, 0xffff, 0, 0]),
    ("v4_mapped", 96, [0, 0, 0, 0, 0xffff, 0, 0, 0]),
    ("v4_compatible", 96, [0, 0, 0, 0, 0, 0, 0, 0]),
    ("nat64", 96, [0x64, 0xff9b, 0, 0, 0, 0, 0, 0]),
    ("nat64", 48, [0x64, 0xff9b, 1, 0, 0, 0, 0, 0]),
    ("metadata", 128, [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]),
    ("unique_local", 7, [0xfc00, 0, 0, 0, 0, 0, 0, 0]),
    ("link_local", 10, [0xfe80, 0, 0, 0, 0, 0, 0, 0]),
    ("site_local", 10, [0xfec0, 0, 0, 0, 0, 0, 0, 0]),
    ("multicast", 8, [0xff00, 0, 0, 0, 0, 0, 0, 0]),
    ("teredo", 32, [0x2001, 0, 0, 0, 0, 0, 0, 0]),
    ("benchmarking", 48, [0x2001, 2, 0, 0, 0, 0, 0, 0]),
    ("documentation", 32, [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]),
    ("reserved", 23, [0x2001, 0, 0, 0, 0, 0, 0, 0]),
    ("6to4", 16, [0x2002, 0, 0, 0, 0, 0, 0, 0]),
    ("documentation", 20, [0x3fff, 0, 0, 0, 0, 0, 0, 0]),
];

/// The rule that refuses the address; `None` if it is public.
pub(super) fn find_refusal_rule(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => find_v4_refusal_rule(address),
        IpAddr::V6(address) => find_v6_refusal_rule(address),
    }
}

fn find_v4_refusal_rule(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let is_in =
        |length: u8, start: [u8; 4]| (bits ^ u32::from_be_bytes(start)) >> (32 - length) == 0;
    let block = NON_PUBLIC_V4_BLOCKS.iter().find(|(_, length, start)| is_in(*length, *start));
    block.map(|(rule, ..)| *rule)
}

fn find_v6_refusal_rule(address: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(address);
    let is_in = |length: u8, start: [u16; 8]| {
        (bits ^ u128::from(Ipv6Addr::from(start))) >> (128 - length) == 0
    };
    let block = NON_PUBLIC_V6_BLOCKS.iter().find(|(_, length, start)| is_in(*length, *start));
    let is_global = is_in(3, [0x2000, 0, 0, 0, 0, 0, 0, 0]);
    block.map(|(rule, ..)| *rule).or((!is_global).then_some("reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_refused_from_their_first_to_their_last_address() {
        for (first, last, rule) in [
            ("0.0.0.0", "0.255.255.255", "unspecified"),
            ("10.0.0.0", "10.255.255.255", "private"),
            ("100.64.0.0", "100.127.255.255", "shared"),
            ("127.0.0.0", "127.255.255.255", "loopback"),
            ("169.254.169.254", "169.254.169.254", "metadata"),
            ("169.254.0.0", "169.254.255.255", "link_local"),
            ("172.16.0.0", "172.31.255.255", "private"),
            ("192.168.0.0", "192.168.255.255", "private"),
            ("198.18.0.0", "198.19.255.255", "benchmarking"),
            ("224.0.0.0", "239.255.255.255", "multicast"),
            ("255.255.255.255", "255.255.255.255", "broadcast"),
            ("240.0.0.0", "255.255.255.254", "reserved"),
            ("::", "::", "unspecified"),
            ("::1", "::1", "loopback"),
            ("::2", "::ffff:ffff", "v4_compatible"),
            ("::ffff:0:0", "::ffff:255.255.255.255", "v4_mapped"),
            ("64:ff9b::", "64:ff9b::ffff:ffff", "nat64"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "nat64"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique_local"),
            ("fd00:ec2::254", "fd00:ec2::254", "metadata"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link_local"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
            ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "teredo"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "6to4"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"),
            ("100::", "100::ffff:ffff:ffff:ffff", "reserved"),
            ("4000::", "5fff::", "reserved"),
        ] {
            for address in [first, last] {
                let found = find_refusal_rule(address.parse().expect("an address"));
                assert_eq!(found, Some(rule), "{address}");
            }
        }
    }

    #[test]
    fn addresses_beside_blocks_are_public() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "3ffe::1",
        ] {
            assert_eq!(find_refusal_rule(address.parse().expect("an address")), None, "{address}");
        }
    }
}
