//! Ids of experiments. The names of their factors are in [`super::factor`].

/// A against A: pairs of treatments with equal `workers`, with the factor `variant` = `A` or `B`.
pub const NOISE: &str = "noise";
/// Prime events by number of workers.
pub const SCALING: &str = "scaling";
/// Dependent additions, one a cycle: factor `cpu` for one CPU alone, or `all` for all CPUs at the same time.
pub const CLOCK: &str = "clock";
/// Four tasks, factor `mode` = `serial`, `threads`, `processes`. Other ids with this prefix have the
/// same form.
pub const MODES: &str = "modes";
/// Matrix products, factor `size`.
pub const MATRIX: &str = "matrix";
/// Processes: the treatments `unpinned` and `pinned`.
pub const AFFINITY: &str = "affinity";
/// Pairs of CPUs that pass a cache line to each other, factors `a`, `b` and `distance`; metrics
/// `latency`, `fastest` and `spread` in ns. A sample is a visit. A visit without work gave no figure.
pub const LATENCY: &str = "latency";
/// The built-in load against sysbench, factor `program`.
pub const SYSBENCH: &str = "sysbench";
/// Prefix of loads whose workers share something, such as `contention-counter`: factor `variant`, and for two
/// tasks that are bound `distance` (a `manycore_topology::Distance` or `same`) with their `cpus`.
pub const CONTENTION: &str = "contention-";
/// Prefix of the same loads measured with another program, with the factor `program`.
pub const CONTENTION_PEER: &str = "beside-";
/// Memory bandwidth by number of workers: factors `kernel` and `stores`; parameters `from` and `to`
/// (the nodes of CPUs and memory), and, as in the next two, `array_bytes` and `caches_bytes`.
pub const STREAM: &str = "stream";
/// Bandwidth of reads from the CPUs of node `from` to the memory of node `to`.
pub const STREAM_NODES: &str = "stream-nodes";
/// Time of a load on the same routes, factor `loaded` = `no` or `yes`; metrics `latency` in ns, and
/// `load` in B/s, which is what the other CPUs read at the same time.
pub const STREAM_LATENCY: &str = "stream-latency";
/// Variants, factors `variant` = `A`, `B`, ..., `name`, `command` and `place`; parameters as [`super::parameter`] and
/// [`manycore_stats::verdict::parameter`] say.
pub const COMPARE: &str = "compare";
/// Prefix of the rounds of a race of many variants, `compare-race-1`, `compare-race-2`, ...; those that remain, and the
/// reference, are then measured as [`COMPARE`].
pub const COMPARE_RACE: &str = "compare-race-";
/// Prefix of the rounds of a search, `tune-1`, `tune-2`, ...; factor `variant` = `today` marks
/// today's behaviour.
pub const TUNE: &str = "tune-";
/// Prefix of checks of limits, such as `qos-bandwidth`: the treatments of `limits::LimitCheck`.
pub const QOS: &str = "qos-";
/// The finalists of a search against today's behaviour, with the factor `command`, which runs a finalist.
pub const TUNE_CONFIRM: &str = "tune-confirm";
/// How many instances of a service fit: each treatment is a number of instances (its workers) of a variant. A block is a pair
/// of slices: the lone instance, and all of a count; one of a single instance has one slice. A sample with
/// exit codes is a count that failed. The first metric is the figure of the bound in ms; parameters as [`super::parameter`]
/// says.
pub const DENSITY: &str = "density";

/// Minimum size of an array in multiples of the last-level caches, as STREAM's run rules require.
pub const TIMES_CACHES: u64 = 4;
