//! Ids of the experiments that `eval` makes.

/// A against A: treatments in pairs of equal `workers`, with the factor `side` = `A` or `B`.
pub const NOISE: &str = "noise";
/// Prime events by number of workers.
pub const SCALING: &str = "scaling";
/// Dependent additions, one a cycle: factor `cpu` for one CPU alone, `together` for all at once.
pub const CLOCK: &str = "clock";
/// Four tasks, factor `mode` = `serial`, `threads`, `processes`; the same for each id with this prefix.
pub const MODES: &str = "modes";
/// Matrix products, factor `size`.
pub const MATRIX: &str = "matrix";
/// Processes `free` and `bound`.
pub const AFFINITY: &str = "affinity";
/// Pairs of CPUs that pass a cache line, factors `a`, `b` and `distance`; metrics `latency`, `fastest` and `spread`
/// in ns. A sample is a visit; one without work gave no figure.
pub const LATENCY: &str = "latency";
/// Ours against sysbench, factor `program`.
pub const SYSBENCH: &str = "sysbench";
/// Prefix of loads whose workers share something, such as `contention-counter`: factor `variant`, and for two
/// tasks that are bound `distance` (a [`manycore_topology::Distance`] or `same`) with their `cpus`.
pub const CONTENTION: &str = "contention-";
/// Prefix of the same loads beside another program, with the factor `program`.
pub const CONTENTION_PEER: &str = "beside-";
/// Memory bandwidth by number of workers: factors `kernel` and `stores`; parameters `from` and `to` (the nodes of CPUs
/// and memory), and, as in the next two, `array_bytes` and `caches_bytes`.
pub const STREAM: &str = "stream";
/// Bandwidth of reading from the CPUs of node `from` to the memory of node `to`.
pub const STREAM_NODES: &str = "stream-nodes";
/// Time of a load on the same ways, factor `loaded` = `no` or `yes`; metrics `latency` in ns and `load` in B/s, what
/// the others read meanwhile.
pub const STREAM_LATENCY: &str = "stream-latency";
/// Two sides, factor `side` = `A` or `B`; parameters as [`manycore_stats::verdict::parameter`] says.
pub const COMPARE: &str = "compare";
/// Rounds of a search: the prefix of `tune-1`, `tune-2`, ...; factor `side` = `today` marks today's behaviour.
pub const TUNE: &str = "tune-";
/// Prefix of checks of limits, such as `qos-bandwidth`: the treatments of [`limits::LimitCheck`].
pub const QOS: &str = "qos-";
/// Its finalists against today's behaviour, with the factor `line`: how to run it.
pub const TUNE_CONFIRM: &str = "tune-confirm";

/// Times the last-level caches that an array should have at least, as STREAM's rules of use ask for.
pub const TIMES_CACHES: u64 = 4;
