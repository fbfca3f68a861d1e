//! The figure of the distributions that decides a comparison.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use manycore_stats::Estimator;

/// What decides a comparison.
#[derive(Clone, Debug, Args)]
pub struct EstimatorArgs {
    /// What decides: the typical pair (median), the mean, a quantile of the worse tail, or the worst of ten runs (max)
    /// [default: median]
    #[arg(long, value_name = "FIGURE", value_parser = estimators(), long_help = BY_HELP)]
    pub by: Option<Estimator>,
}

/// Help of `--by`.
const BY_HELP: &str = "\
What of the two distributions is compared. It is chosen before anything is measured; the answer, the early end and the \
number of runs follow from it.

  median            the ratio of a typical pair of runs; at least 6 pairs
  mean              the ratio of the means: what many runs cost in total; at least 6 pairs
  p90, p95, p99     the ratio of quantiles of the worse tail; at least 36, 72 and 368 pairs
  max               the ratio of the worst of ten runs; at least 60 pairs. The largest of all runs has no interval: it \
grows with their number

A variant that is better by this figure and worse by the mean or by a quantile is reported as a trade-off.

Stored records: this figure of each record is one value. Without this option, it is the one that the records were \
decided by. Except for the median, an interval needs several records of each side, or earlier results of the same work.

[default: median]";

fn estimators() -> impl TypedValueParser<Value = Estimator> {
    PossibleValuesParser::new(Estimator::ALL.map(Estimator::name)).try_map(|name| name.parse::<Estimator>())
}
