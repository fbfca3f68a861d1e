//! How load generators send requests, and so what their latencies include.

use super::MetricReader;

/// When a load generator sends its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadModel {
    /// After the answer to the last one. While the server stalls, nothing is sent, so latencies leave out the requests
    /// that would have waited: coordinated omission (Tene, "How NOT to measure latency", 2013).
    Closed,
    /// At planned times. A latency counts from the planned time, whether or not earlier requests were answered.
    Open,
}

impl LoadModel {
    /// Returns its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// Returns the load generator of a reader with its model, by the options of the measured command. `None` where the reader
/// is of another program, or of a histogram whose program is not known.
pub fn load_model(reader: &MetricReader, command: &[String]) -> Option<(String, LoadModel)> {
    let given = reader.to_string();
    let name = given.split(['.', '=']).next().unwrap_or_default();
    let has = |option: &str| command.iter().any(|word| word == option);
    let model = match name {
        "wrk2" => LoadModel::Open,
        // Without the correction, oha counts from the start of a request that was sent late.
        "oha" if has("--latency-correction") => LoadModel::Open,
        "ghz" if has("--async") => LoadModel::Open,
        "wrk" | "hey" | "oha" | "ghz" | "redis-benchmark" | "memtier" => LoadModel::Closed,
        _ => return None,
    };
    Some((name.to_owned(), model))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(reader: &str, command: &str) -> Option<LoadModel> {
        let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        load_model(&reader.parse().unwrap(), &command).map(|(_, model)| model)
    }

    #[test]
    fn generators_have_the_model_of_their_options() {
        assert_eq!(model("wrk.p99", "wrk -c 10 http://h/"), Some(LoadModel::Closed));
        assert_eq!(model("wrk2", "wrk2 -R 2000 http://h/"), Some(LoadModel::Open));
        assert_eq!(model("oha", "oha -q 100 http://h/"), Some(LoadModel::Closed));
        assert_eq!(model("oha", "oha -q 100 --latency-correction http://h/"), Some(LoadModel::Open));
        assert_eq!(model("wrk=file:wrk.log:", "./load.sh"), Some(LoadModel::Closed));
        assert_eq!(model("hdr", "java -jar load.jar"), None);
        assert_eq!(model("rate=rate (.*)", "wrk http://h/"), None);
    }
}
