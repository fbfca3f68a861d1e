//! What the latencies of a load generator include.

use super::{Finding, FindingKind};
use manycore_experiment::{
    Record,
    record::{id, parameter},
};

pub(crate) fn find(record: &Record) -> Option<Finding> {
    let parameters = &record.experiment(id::COMPARE)?.parameters;
    let generator = manycore_text::names::printable(parameters.get(parameter::LOAD_GENERATOR)?);
    let (kind, text) = match parameters.get(parameter::LOAD_MODEL)?.as_str() {
        // It limits what every figure of latency says, so it is shown with the answer.
        "closed" => (
            FindingKind::Warning,
            format!(
                "{generator} is a closed-loop load: it sends a request after the answer to the last one, so its latencies \
                 leave out the requests that would have waited during a stall (coordinated omission)."
            ),
        ),
        "open" => (
            FindingKind::Fact,
            format!(
                "{generator} is an open-loop load: its latencies count from the planned time of each request, so they \
                 include waiting during a stall."
            ),
        ),
        _ => return None,
    };
    Some(Finding::new(kind, "comparison", text, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_experiment::record::{Experiment, Method};
    use std::collections::BTreeMap;

    fn text(parameters: &[(&str, &str)]) -> Option<String> {
        let parameters: BTreeMap<String, String> =
            parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let experiment = Experiment {
            id: id::COMPARE.to_owned(),
            method: Method::WholeRun,
            unit: "requests".to_owned(),
            parameters,
            metrics: Vec::new(),
            treatments: Vec::new(),
            samples: Vec::new(),
        };
        find(&Record { experiments: vec![experiment], ..Record::default() }).map(|finding| finding.text)
    }

    #[test]
    fn the_model_of_the_load_is_named() {
        let of = |model| text(&[(parameter::LOAD_GENERATOR, "wrk"), (parameter::LOAD_MODEL, model)]);
        assert!(of("closed").unwrap().contains("coordinated omission"));
        assert!(of("open").unwrap().starts_with("wrk is an open-loop load"));
        assert_eq!((of("other"), text(&[])), (None, None));
    }
}
