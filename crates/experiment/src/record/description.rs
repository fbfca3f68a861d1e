//! What was measured, in words.

use super::{Experiment, Record, Treatment, factor, id, parameter};

/// Follows the name of a variant where an earlier one has that name: treatments of one name could not be distinguished.
pub const SAME_NAME: &str = " (again)";

impl Record {
    /// Returns the subcommand with its profile, load, command or variants: `eval --quick`, `bench counter --quick`,
    /// `scale -- make -j{workers}`, `compare (A: gzip -1 big.log; B: gzip -9 big.log)`.
    pub fn command(&self) -> String {
        let variants = self.variants();
        if !variants.is_empty() {
            let parts: Vec<String> =
                variants.into_iter().map(|(label, what)| format!("{label}: {what}")).collect();
            return format!("{} ({})", self.subcommand, parts.join("; "));
        }
        match (self.profile.as_str(), self.subject.as_str()) {
            ("", "") => self.subcommand.clone(),
            ("", subject) => format!("{}{} -- {subject}", self.subcommand, self.scale_options()),
            (profile, subject) if !subject.is_empty() => format!("{} {subject} --{profile}", self.subcommand),
            (profile, _) => format!("{} --{profile}", self.subcommand),
        }
    }

    /// Returns the options of `scale` that decide what its workers are and where they run.
    fn scale_options(&self) -> String {
        let experiment = self.experiment(id::SCALING).filter(|_| self.subcommand == "scale");
        let option = |name: &str| experiment.and_then(|experiment| experiment.parameters.get(name));
        let copies = option("counted").filter(|counted| *counted == "copies").map(|_| " --copies".to_owned());
        let place = option("place").filter(|place| *place != "free").map(|place| format!(" --place {place}"));
        copies.into_iter().chain(place).collect()
    }

    /// Returns what the variants of a comparison were, each with its title: `A` and `B`, or `A and B` where two are
    /// compared and both are the same. Empty where the record has no comparison.
    ///
    /// A variant is a command with its environment and placement. Where a service was placed, it is the service with
    /// its placement, and its load with the CPUs of the load.
    pub fn variants(&self) -> Vec<(String, String)> {
        let Some(experiment) = self.experiment(id::COMPARE) else { return Vec::new() };
        let described = |index: usize| {
            let treatment = &experiment.treatments[index];
            (treatment.title().to_owned(), description(treatment, experiment))
        };
        let all: Vec<(String, String)> = experiment.variants().map(described).collect();
        match all.as_slice() {
            [_] => Vec::new(),
            [(a, what), (b, same)] if what == same => vec![(format!("{a} and {b}"), what.clone())],
            _ => all,
        }
    }
}

fn description(treatment: &Treatment, experiment: &Experiment) -> String {
    let name = treatment.plain_name();
    let Some(service) = experiment.parameters.get(parameter::SERVICE) else { return name.to_owned() };
    let load = treatment.factors.get(factor::COMMAND).map_or(name, String::as_str);
    let factor = |name: &str| treatment.factors.get(name).cloned();
    let scheduler = factor(factor::SCHEDULER).map(|scheduler| format!("sched={scheduler}"));
    let differences: Vec<String> =
        [factor(factor::PLACE), scheduler, factor(factor::SETTINGS)].into_iter().flatten().collect();
    let place = if differences.is_empty() { String::new() } else { format!(" ({})", differences.join(", ")) };
    let cpus = experiment
        .parameters
        .get(parameter::LOAD_CPUS)
        .map(|cpus| format!(" (CPUs {cpus})"))
        .unwrap_or_default();
    format!("{service}{place}, load: {load}{cpus}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Method;
    use std::collections::BTreeMap;

    fn comparison(names: [&str; 2], factors: &[[(&str, &str); 2]; 2], parameters: &[(&str, &str)]) -> Record {
        let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let treatment = |(index, letter): (usize, &str)| Treatment {
            name: names[index].to_owned(),
            workers: 1,
            factors: text(&[&factors[index][..], &[(factor::VARIANT, letter)]].concat()),
            latency: None,
        };
        let experiment = Experiment {
            id: id::COMPARE.to_owned(),
            method: Method::WholeRun,
            unit: "runs".to_owned(),
            parameters: text(parameters),
            metrics: Vec::new(),
            treatments: ["A", "B"].into_iter().enumerate().map(treatment).collect(),
            samples: Vec::new(),
        };
        let subject = "gzip -1 big.log".to_owned();
        Record {
            subcommand: "compare".to_owned(),
            subject,
            experiments: vec![experiment],
            ..Record::default()
        }
    }

    fn factors(places: [&'static str; 2]) -> [[(&'static str, &'static str); 2]; 2] {
        places.map(|place| [(factor::COMMAND, "wrk -d 1s"), (factor::PLACE, place)])
    }

    /// Regression test: reports named only the command of A.
    #[test]
    fn both_variants_of_a_comparison_are_named() {
        let record =
            comparison(["gzip -1 big.log", "gzip -9 big.log (close)"], &factors(["free", "close"]), &[]);
        assert_eq!(record.command(), "compare (A: gzip -1 big.log; B: gzip -9 big.log (close))");
        let plain = Record { experiments: Vec::new(), ..record };
        assert_eq!(plain.command(), "compare -- gzip -1 big.log");
        assert!(plain.variants().is_empty());
    }

    #[test]
    fn a_service_is_named_with_its_placements_and_its_load() {
        let parameters = [(parameter::SERVICE, "nginx -c n.conf"), (parameter::LOAD_CPUS, "1")];
        let names = ["wrk -d 1s (free)", "wrk -d 1s (cpus=0)"];
        assert_eq!(
            comparison(names, &factors(["free", "cpus=0"]), &parameters).variants(),
            [
                ("A".to_owned(), "nginx -c n.conf (free), load: wrk -d 1s (CPUs 1)".to_owned()),
                ("B".to_owned(), "nginx -c n.conf (cpus=0), load: wrk -d 1s (CPUs 1)".to_owned()),
            ]
        );
    }

    /// Regression test: `cpus=0` was shown nowhere.
    #[test]
    fn the_placement_of_scale_is_named() {
        let mut record = comparison(["1 copy", "2 copies"], &factors(["cpus=0", "cpus=0"]), &[]);
        record.subcommand = "scale".to_owned();
        record.experiments[0].id = id::SCALING.to_owned();
        let mut set = |name: &str, value: &str| {
            record.experiments[0].parameters.insert(name.to_owned(), value.to_owned());
            record.command()
        };
        assert_eq!(set("place", "free"), "scale -- gzip -1 big.log");
        assert_eq!(set("place", "cpus=0"), "scale --place cpus=0 -- gzip -1 big.log");
        assert_eq!(set("counted", "copies"), "scale --copies --place cpus=0 -- gzip -1 big.log");
    }

    #[test]
    fn the_same_variant_twice_is_named_once() {
        let record = comparison(["true", "true (again)"], &factors(["free", "free"]), &[]);
        assert_eq!(record.variants(), [("A and B".to_owned(), "true".to_owned())]);
    }
}
