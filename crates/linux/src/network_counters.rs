//! Packets that the network stack could not process in time, and what TCP sent again or refused.
//!
//! All are running totals since boot; the caller computes differences.

use manycore_topology::sys_tree::SysTree;

/// What the CPUs could not process in time (`/proc/net/softnet_stat`, `softnet_seq_show` in `net/core/net-procfs.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftnetCounters {
    /// Packets that were dropped because the backlog of a CPU was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// Times that a CPU ended its work on packets with packets left (`net.core.netdev_budget`).
    pub squeezed: u64,
}

/// What TCP sent again or refused in one network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments that were sent again (`RetransSegs` of `/proc/net/snmp`, RFC 1213).
    pub retransmitted: u64,
    /// Connections that were refused because a listening socket could not take them, for any reason (`ListenDrops` of
    /// `/proc/net/netstat`; a full queue is one of the reasons).
    pub listen_drops: u64,
}

/// Reads the counters of all CPUs together. They are those of the machine, whatever the network namespace.
pub fn softnet(tree: &SysTree) -> Option<SoftnetCounters> {
    parse_softnet(&tree.read("proc/net/softnet_stat")?)
}

/// Reads the counters of the network namespace of `process`: its id, or `self`.
pub fn tcp(tree: &SysTree, process: &str) -> Option<TcpCounters> {
    let read = |file: &str| tree.read(&format!("proc/{process}/net/{file}"));
    Some(TcpCounters {
        retransmitted: parse_table(&read("snmp")?, "Tcp:", "RetransSegs")?,
        listen_drops: parse_table(&read("netstat")?, "TcpExt:", "ListenDrops")?,
    })
}

/// A line for each CPU, with hexadecimal numbers: packets processed, dropped, and the times that it was squeezed.
fn parse_softnet(text: &str) -> Option<SoftnetCounters> {
    let mut all = SoftnetCounters::default();
    for line in text.lines() {
        let mut numbers = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        let (_, dropped, squeezed) = (numbers.next()??, numbers.next()??, numbers.next()??);
        all.dropped = all.dropped.saturating_add(dropped);
        all.squeezed = all.squeezed.saturating_add(squeezed);
    }
    (!text.is_empty()).then_some(all)
}

/// Returns the number of the column `name` in the two lines that begin with `protocol`, of which the first has the names.
fn parse_table(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let column = lines.next()?.split_whitespace().position(|column| column == name)?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;
    use proptest::prelude::*;
    use std::path::Path;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs \
        OutSegs RetransSegs InErrs OutRsts InCsumErrors\n\
        Tcp: 1 200 120000 -1 30913 22338 8382 97 0 8026435 8005360 17 0 8492 0\nUdp: InDatagrams\nUdp: 5\n";
    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\nTcpExt: 0 2 3 7710660\n\
        IpExt: InNoRoutes\nIpExt: 0\n";
    // Linux 6.18 on two CPUs, with drops and squeezes put in.
    const SOFTNET: &str = "003e1579 00000002 0000000a 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
        00000000 00000000 00000000 00000000 00000000\n\
        003c7121 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
        00000001 00000000 00000000\n";

    #[test]
    fn counters_are_found_by_the_names_of_their_columns() {
        let mut capture = Capture::default();
        capture.add_file("proc/net/softnet_stat", SOFTNET);
        capture.add_file("proc/7/net/snmp", SNMP);
        capture.add_file("proc/7/net/netstat", NETSTAT);
        let tree = SysTree::from_capture(capture);
        assert_eq!(softnet(&tree), Some(SoftnetCounters { dropped: 2, squeezed: 11 }));
        assert_eq!(tcp(&tree, "7"), Some(TcpCounters { retransmitted: 17, listen_drops: 3 }));
        assert_eq!(tcp(&tree, "8"), None);
        assert_eq!(parse_table("Tcp: A B\nTcp: 1\n", "Tcp:", "B"), None);
        assert_eq!(parse_softnet(""), None);
    }

    #[test]
    fn this_machine_has_counters() {
        let tree = SysTree::open(Path::new("/")).unwrap();
        let own = tcp(&tree, "self");
        assert_eq!(own.is_some(), Path::new("/proc/net/snmp").exists());
        assert_eq!(softnet(&tree).is_some(), Path::new("/proc/net/softnet_stat").exists());
    }

    proptest! {
        #[test]
        fn hostile_text_breaks_no_parser(text in "[a-fTcp0-9: \n]{0,200}|\\PC{0,80}") {
            let _ = (parse_softnet(&text), parse_table(&text, "T", "c"));
        }
    }
}
