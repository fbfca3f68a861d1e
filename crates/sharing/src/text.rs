//! The figure in a sentence.

use crate::{accumulator::LevelSharing, sampler::Sharing};
use manycore_text::units;

/// Below this share, a kind of pairs is not named.
const NAMED: f64 = 0.0005;

/// Returns what was observed at the level that matters, as one line. `None` where tasks have no choice.
pub fn sentence(sharing: &Sharing) -> Option<String> {
    let level = sharing.level?;
    let sampled = sampled(sharing);
    let Some(found) = sharing.of(level) else {
        return Some(format!(
            "two tasks were never running at once: whether they share a {level} was not observed{sampled}"
        ));
    };
    let (low, high) = (percent(found.any.low), percent(found.any.high));
    let low = low.trim_end_matches(" %");
    let high = high.trim_end_matches(" %");
    Some(format!(
        "shared a {level} while another was idle: {} of the time ({low} to {high}{}){sampled}",
        percent(found.any.share),
        kinds(found)
    ))
}

/// Formats a share; one that was never observed has no decimals.
fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { units::percent(share) }
}

/// Which pairs shared.
fn kinds(found: &LevelSharing) -> String {
    let (same, different) = (found.same_process.share, found.different_processes.share);
    match (same > NAMED, different > NAMED) {
        (false, false) => String::new(),
        (true, false) => "; same process".to_owned(),
        (false, true) => "; different processes".to_owned(),
        (true, true) => {
            format!("; same process {}, different processes {}", percent(same), percent(different))
        }
    }
}

fn sampled(sharing: &Sharing) -> String {
    let every = match sharing.interval_ms {
        long if long >= 9.5 => format!("{long:.0} ms"),
        short => format!("{short:.1} ms"),
    };
    let failure = sharing.failure.as_ref().map(|why| format!("; incomplete: {why}")).unwrap_or_default();
    format!(", sampled every {every}{failure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Level, Share};

    fn sharing(any: (f64, f64, f64), same: f64, different: f64) -> Sharing {
        let share = |share| Share { share, low: share, high: share };
        Sharing {
            source: "procfs".to_owned(),
            snapshots: 800,
            snapshots_with_two: 800,
            seconds: 8.0,
            seconds_with_two: 8.0,
            interval_ms: 10.02,
            cpu_share: 0.004,
            level: Some(Level::Cluster),
            levels: vec![LevelSharing {
                level: Level::Cluster,
                units: 4,
                any: Share { share: any.0, low: any.1, high: any.2 },
                same_process: share(same),
                different_processes: share(different),
            }],
            failure: None,
        }
    }

    #[test]
    fn the_sentence_has_level_share_interval_and_pairs() {
        let of = |any, same, different| sentence(&sharing(any, same, different)).unwrap();
        assert_eq!(
            of((0.83, 0.79, 0.87), 0.83, 0.0),
            "shared a cluster while another was idle: 83 % of the time (79 to 87; same process), sampled every 10 ms"
        );
        assert_eq!(
            of((0.0, 0.0, 0.046), 0.0, 0.0),
            "shared a cluster while another was idle: 0 % of the time (0 to 4.6), sampled every 10 ms"
        );
        assert!(of((0.5, 0.4, 0.6), 0.3, 0.25).contains("same process 30 %, different processes 25 %"));
    }

    #[test]
    fn what_was_not_observed_is_said() {
        let mut never = sharing((0.0, 0.0, 0.0), 0.0, 0.0);
        never.levels.clear();
        assert!(sentence(&never).unwrap().starts_with("two tasks were never running at once"));
        never.failure = Some("too many files".to_owned());
        assert!(sentence(&never).unwrap().ends_with("incomplete: too many files"));
        never.level = None;
        assert_eq!(sentence(&never), None);
    }
}
