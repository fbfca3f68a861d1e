//! What an evaluation looks like: invented fleets of 0 to 10,000 nodes, and nodes with hostile names.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod invented;

use base64::{Engine, engine::general_purpose::STANDARD};
use invented::{HOSTILE, all_well, fleet, hostile, too_few};
use manycore_fleet::{
    evaluation::{Change, FleetEvaluation, Verdict},
    hostlist,
    render::{answer, csv, document, drain, json, node_list, page, prometheus},
};
use manycore_render::{document::Extent, terminal::Terminal};
use std::{collections::BTreeSet, process::Command};

const BRIEF: Extent = Extent::Brief { hint: "see fleet.html" };

fn text(evaluation: &FleetEvaluation, columns: usize) -> String {
    document(evaluation, BRIEF).text(Terminal::new(columns, false))
}

#[test]
fn text_of_4_and_300_nodes() {
    for (count, columns) in [(4, 80), (4, 140), (300, 80), (300, 140)] {
        insta::assert_snapshot!(format!("{count}_nodes_{columns}_columns"), text(&fleet(count), columns));
    }
    insta::assert_snapshot!("hostile_80_columns", text(&hostile(), 80));
    insta::assert_snapshot!("hostile_140_columns", text(&hostile(), 140));
}

#[test]
fn answers() {
    let fleets = [FleetEvaluation::default(), too_few(), all_well(), fleet(4), fleet(300), fleet(10_000)];
    let answers: Vec<String> = fleets.iter().map(|fleet| answer(fleet).join("\n")).collect();
    insta::assert_snapshot!(answers.join("\n\n"));
}

/// Regression: changes were of no kind, because kinds have the kernel in their name and changes do not.
#[test]
fn a_change_of_all_nodes_is_named_so() {
    let mut evaluation = all_well();
    assert_eq!(evaluation.kinds.len(), 1);
    let change = |kind: &str| Change {
        kind: kind.to_owned(),
        what: "stream".to_owned(),
        between: ("2026-03-13T08:00:00Z".to_owned(), "2026-03-14T08:00:00Z".to_owned()),
        deficit: 0.07,
        interval: (0.06, 0.08),
        ..Change::default()
    };
    let shown = |evaluation: &FleetEvaluation| {
        let text = text(evaluation, 140);
        text.lines().find(|line| line.contains("2026-03-14")).unwrap().to_owned()
    };
    evaluation.kinds[0].name = "X, 64 CPUs, Linux 6.8".to_owned();
    evaluation.changes = vec![change("X, 64 CPUs")];
    assert!(shown(&evaluation).contains("  all "), "{}", shown(&evaluation));
    let mut other = evaluation.kinds[0].clone();
    other.name = "X, 64 CPUs, Linux 6.9".to_owned();
    let last = manycore_fleet::evaluation::Kind { name: "Y, 64 CPUs".to_owned(), ..other.clone() };
    evaluation.kinds.extend([other, last]);
    assert!(shown(&evaluation).contains("all of kinds 1, 2"), "{}", shown(&evaluation));
    evaluation.changes = vec![change("Y, 64 CPUs")];
    assert!(shown(&evaluation).contains("all of kind 3"), "{}", shown(&evaluation));
}

#[test]
fn the_text_of_10_000_nodes_is_short_and_says_where_the_others_are() {
    let large = fleet(10_000);
    let slow = large.nodes.iter().filter(|node| node.verdict == Verdict::Slow).count();
    for columns in [80, 140, 200] {
        let text = text(&large, columns);
        assert!(text.lines().count() < 100, "{} lines at {columns}", text.lines().count());
        assert!(text.contains(&format!("{} more: see fleet.html", slow - 6)), "{text}");
    }
    let full = document(&large, Extent::Full).markdown();
    let all = large.nodes.iter().filter(|node| node.verdict == Verdict::Slow);
    assert!(all.clone().count() > 50 && all.into_iter().all(|node| full.contains(&node.name)));
}

#[test]
fn csv_has_a_row_for_each_node_and_figure() {
    let large = fleet(300);
    let written = csv(&large);
    assert_eq!(written.lines().count(), 1 + 300 * 7 + large.missing.len());
    let columns = written.lines().next().unwrap().split(',').count();
    let row: Vec<&str> = written.lines().find(|line| line.contains("n0002")).unwrap().split("\",").collect();
    let rest: Vec<&str> = row[1].split(',').collect();
    assert_eq!((columns, rest[1]), (17, "inconclusive"), "{row:?}");
    let written = csv(&hostile());
    assert!(!written.contains("NaN") && !written.contains("inf") && !written.contains('\u{1b}'), "{written}");
    assert_eq!(written.lines().count(), 1 + 10 * 7 + 1 + 1 + hostile().missing.len(), "{written}");
}

#[test]
fn json_is_the_evaluation() {
    let fleet = fleet(4);
    let read: serde_json::Value = serde_json::from_str(&json(&fleet)).unwrap();
    assert_eq!(read["schema"], "manycore/fleet/1");
    assert_eq!(read["nodes"][0]["figures"][2]["verdict"], "slow");
    assert!(!json(&hostile()).contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn slow_nodes_as_a_list_for_slurm() {
    for fleet in [fleet(4), fleet(300), fleet(10_000)] {
        let slow: BTreeSet<String> = fleet
            .nodes
            .iter()
            .filter(|node| node.verdict == Verdict::Slow)
            .map(|node| node.name.clone())
            .collect();
        let list = node_list(&fleet);
        assert_eq!(hostlist::expand(&list.text).unwrap().into_iter().collect::<BTreeSet<_>>(), slow);
        assert!(list.left_out.is_empty());
        let drained: BTreeSet<String> = drain(&fleet)
            .lines
            .iter()
            .flat_map(|line| {
                hostlist::expand(line.split_once("nodename=").unwrap().1.split(' ').next().unwrap()).unwrap()
            })
            .collect();
        assert_eq!(drained, slow);
    }
    assert_eq!(node_list(&all_well()).text, "");
    let mut named = fleet(4);
    named.nodes[0].name = "slurm:n1".to_owned();
    assert_eq!(node_list(&named).text, "n1");
}

/// The lines are run by a real shell, in which `scontrol` prints its arguments.
#[test]
fn drain_lines_are_safe_in_a_shell() {
    let mut evaluation = fleet(300);
    evaluation.kinds[0].figures[2].what = HOSTILE.to_owned();
    for node in &mut evaluation.nodes {
        node.causes = vec![format!("{} used 1.9 CPUs", HOSTILE)];
    }
    evaluation.nodes[0].name = "n1;reboot".to_owned();
    let drained = drain(&evaluation);
    assert_eq!(drained.left_out, ["n1;reboot"]);
    let script = format!("scontrol() {{ printf '<%s>' \"$@\"; echo; }}\n{}\n", drained.lines.join("\n"));
    let output = Command::new("sh").env_clear().args(["-c", &script]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(printed.lines().count(), drained.lines.len());
    for line in printed.lines() {
        let words: Vec<&str> = line.split("><").collect();
        assert_eq!(words.len(), 4, "{line}");
        assert!(
            words[1].starts_with("nodename=n")
                && words[2] == "state=drain"
                && words[3].starts_with("reason=manycore: ")
        );
    }
}

#[test]
fn drain_lines_say_why() {
    insta::assert_snapshot!(drain(&fleet(300)).lines.join("\n"));
}

/// Regression test: names of metrics, labels and escapes are what Prometheus reads, as far as promtool is installed.
#[test]
fn prometheus_reads_the_metrics() {
    for evaluation in [fleet(4), hostile(), too_few(), FleetEvaluation::default()] {
        let written = prometheus(&evaluation);
        assert!(!written.contains("NaN") && !written.contains("inf "), "{written}");
        promtool(&written);
    }
    let written = prometheus(&fleet(4));
    assert!(written.contains("manycore_fleet_nodes{verdict=\"slow\"} 1\n"), "{written}");
    assert!(written.contains("manycore_fleet_node_slow{node=\"n0001\"} 1\n"), "{written}");
    assert!(written.contains("manycore_fleet_node_slow{node=\"n0002\"} 0\n"), "{written}");
    assert!(written.contains("manycore_fleet_omitted_series 0\n"), "{written}");
}

fn promtool(text: &str) {
    use std::{io::Write, process::Stdio};
    let start = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut running) = start else { return };
    running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn metrics_of_large_fleets_are_bounded_and_keep_slow_nodes() {
    let large = fleet(10_000);
    let written = prometheus(&large);
    let series: Vec<&str> = written.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(series.len() <= manycore_fleet::render::MAX_SERIES + 8, "{}", series.len());
    let distinct: BTreeSet<&str> =
        series.iter().filter_map(|line| line.rsplit_once(' ')).map(|one| one.0).collect();
    assert_eq!(distinct.len(), series.len(), "each series once");
    for node in large.nodes.iter().filter(|node| node.verdict == Verdict::Slow) {
        assert!(written.contains(&format!("manycore_fleet_node_slow{{node=\"{}\"}} 1", node.name)));
        let deficits = format!("manycore_fleet_node_deficit_ratio{{node=\"{}\"", node.name);
        assert_eq!(series.iter().filter(|line| line.starts_with(&deficits)).count(), 7, "{}", node.name);
    }
    let omitted = series.iter().find(|line| line.starts_with("manycore_fleet_omitted_series")).unwrap();
    let omitted: usize = omitted.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert_eq!(series.len() - 8 + omitted, 10_000 * (2 + 2 * 7));
}

#[test]
fn the_page_has_every_node_and_a_bounded_size() {
    for (count, most) in [(0, 60_000), (4, 100_000), (300, 800_000), (10_000, 5_000_000)] {
        let evaluation = if count == 0 { FleetEvaluation::default() } else { fleet(count) };
        let html = page(&evaluation, "a cluster");
        assert!(html.len() < most, "{} bytes of {count} nodes", html.len());
        for node in &evaluation.nodes {
            assert!(
                html.contains(&format!("href=\"nodes/{0}/report.html\">{0}</a>", node.name)),
                "{}",
                node.name
            );
        }
        assert!(html.matches("<tr").count() < 2_000, "{}", html.matches("<tr").count());
    }
}

#[test]
fn the_page_escapes_what_nodes_say() {
    let html = page(&hostile(), HOSTILE);
    assert_eq!(html.matches("<script").count(), 1, "only our own");
    assert!(!html.contains(['\u{1b}', '\u{202e}']) && !html.contains("href=\"javascript:"));
    assert!(!html.contains("NaN") && html.contains("&lt;script&gt;"));
}

/// The browser runs the script only if its hash is the one in the policy of the page.
#[test]
fn the_hash_of_the_script_is_in_the_policy() {
    let html = page(&fleet(4), "a");
    let script = html.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let hash = format!("script-src 'sha256-{}'", STANDARD.encode(sha256(script.as_bytes())));
    assert!(html.contains(&hash), "{hash}");
}

/// SHA-256 (FIPS 180-4). The constants are the fractions of roots of primes, as the standard derives them.
fn sha256(message: &[u8]) -> [u8; 32] {
    let primes: Vec<u32> = (2_u32..312).filter(|n| (2..*n).all(|by| n % by != 0)).collect();
    // Floor of the root times 2^32, found by bisection in whole numbers; the low 32 bits are the fraction.
    let fraction = |prime: u32, power: u32| {
        let (mut low, mut high) = (0_u128, 1 << 37);
        while high - low > 1 {
            let middle = u128::midpoint(low, high);
            let is_below = match power {
                2 => middle * middle <= u128::from(prime) << 64,
                _ => middle * middle * middle <= u128::from(prime) << 96,
            };
            if is_below { low = middle } else { high = middle }
        }
        low as u32
    };
    let constants: Vec<u32> = primes.iter().take(64).map(|&prime| fraction(prime, 3)).collect();
    let mut state: Vec<u32> = primes.iter().take(8).map(|&prime| fraction(prime, 2)).collect();
    let mut padded = [message, &[0x80]].concat();
    padded.resize((padded.len() + 8).div_ceil(64) * 64 - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut words: Vec<u32> =
            block.chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
        for at in 16..64 {
            let (a, b) = (words[at - 15], words[at - 2]);
            let small = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let large = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            words.push(words[at - 16].wrapping_add(small).wrapping_add(words[at - 7]).wrapping_add(large));
        }
        let mut s = state.clone();
        for at in 0..64 {
            let large = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
            let choice = (s[4] & s[5]) ^ (!s[4] & s[6]);
            let first = [large, choice, constants[at], words[at]].into_iter().fold(s[7], u32::wrapping_add);
            let small = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
            let second = small.wrapping_add((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s = vec![
                first.wrapping_add(second),
                s[0],
                s[1],
                s[2],
                s[3].wrapping_add(first),
                s[4],
                s[5],
                s[6],
            ];
        }
        state.iter_mut().zip(s).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>().try_into().unwrap()
}
