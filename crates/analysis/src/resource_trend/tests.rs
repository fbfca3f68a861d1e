use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Counts that a search up to 64 visits, with the pairs that it takes at each.
const VISITED: [(usize, usize); 10] =
    [(1, 4), (2, 3), (4, 3), (8, 4), (16, 6), (24, 6), (28, 6), (32, 6), (48, 4), (64, 4)];

/// A resource with its change at a count, and the size of its noise.
type Driven<'a> = (Resource, &'a dyn Fn(f64) -> f64, f64);

/// Returns a roughly normal number.
fn noise(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

fn metrics() -> Vec<Metric> {
    Resource::all().map(Resource::metric).collect()
}

fn place(resource: Resource) -> usize {
    Resource::all().position(|other| other == resource).unwrap()
}

/// Returns pairs with the logarithm of the tail and the change of each resource at a count, both with noise of the given
/// size; all else is noise of size 1.
fn pairs(rng: &mut Xoshiro256PlusPlus, tail: impl Fn(f64) -> f64, driven: &[Driven]) -> Vec<ResourcePair> {
    let mut pairs = Vec::new();
    for (count, repeats) in VISITED {
        for _ in 0..repeats {
            let mut values: Vec<(f64, f64)> =
                Resource::all().map(|_| (10.0 + noise(rng), 10.0 + noise(rng))).collect();
            for (resource, change, size) in driven {
                let (alone, other) = (5.0 + size * noise(rng), 5.0 + size * noise(rng));
                values[place(*resource)] = (alone, other + change(count as f64));
            }
            pairs.push(ResourcePair { count, tail: tail(count as f64) + 0.05 * noise(rng), values });
        }
    }
    pairs
}

/// Returns how often each name is given in `records` records.
fn named(
    records: u64,
    record: impl Fn(&mut Xoshiro256PlusPlus) -> Vec<ResourcePair>,
) -> BTreeMap<String, u32> {
    let mut names = BTreeMap::new();
    for seed in 0..records {
        let pairs = record(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let trends = ResourceTrends::new(&metrics(), &pairs);
        let name = trends.first_to_move().map_or("nothing", |trend| trend.name.as_str());
        *names.entry(name.to_owned()).or_default() += 1;
    }
    names
}

/// The utilisation of a server that is full at 80 instances.
fn queue(count: f64) -> f64 {
    (count / 80.0) / (1.0 - count / 80.0)
}

#[test]
fn noise_is_rarely_named() {
    // The tail rises, and no resource does.
    let rising = named(200, |rng| pairs(rng, |count| (1.0 + queue(count)).ln(), &[]));
    assert!(rising.get("nothing").copied().unwrap_or(0) >= 190, "{rising:?}");
    // Resources rise, and the tail does not.
    let totals: [Driven; 2] =
        [(Resource::CpusBusy, &|count| count, 1.0), (Resource::MemoryBandwidth, &|count| count, 1.0)];
    let flat = named(200, |rng| pairs(rng, |_| 0.0, &totals));
    assert!(flat.get("nothing").copied().unwrap_or(0) >= 190, "{flat:?}");
    // Neither does.
    let noise = named(200, |rng| pairs(rng, |_| 0.0, &[]));
    assert!(noise.get("nothing").copied().unwrap_or(0) >= 190, "{noise:?}");
    // Values with a heavy upper tail.
    let skewed = named(200, |rng| {
        let mut pairs = pairs(rng, |count| (1.0 + queue(count)).ln(), &[]);
        let each = pairs.iter_mut().flat_map(|pair| &mut pair.values);
        each.for_each(|(alone, at)| (*alone, *at) = ((3.0 * *alone).exp(), (3.0 * *at).exp()));
        pairs
    });
    assert!(skewed.get("nothing").copied().unwrap_or(0) >= 190, "{skewed:?}");
    eprintln!("tail alone: {rising:?}; totals alone: {flat:?}; neither: {noise:?}; skewed: {skewed:?}");
}

#[test]
fn the_resource_that_drives_the_tail_is_named_in_most_records() {
    let total: Driven = (Resource::CpusBusy, &|count| count, 1.0);
    // Waiting as in a queue.
    let waiting = |count: f64| 20.0 * queue(count);
    let driven: [Driven; 2] = [total, (Resource::RunDelay, &waiting, 1.0)];
    let found = named(200, |rng| pairs(rng, |count| (1.0 + queue(count)).ln(), &driven));
    eprintln!("queue: {found:?}");
    assert!(found.get("run delay").copied().unwrap_or(0) >= 170, "{found:?}");
    // A resource that is full at 16 instances.
    let full = |count: f64| (count - 16.0).max(0.0);
    let change = |count: f64| 0.5 * full(count);
    let driven: [Driven; 2] = [total, (Resource::MemoryPressure, &change, 1.0)];
    let found = named(200, |rng| pairs(rng, |count| (1.0 + full(count) / 20.0).ln(), &driven));
    eprintln!("full at 16: {found:?}");
    assert!(found.get("memory pressure").copied().unwrap_or(0) >= 140, "{found:?}");
    assert!(found.keys().all(|name| ["memory pressure", "nothing"].contains(&name.as_str())), "{found:?}");
}

/// Pairs without noise, four at each count, with the change of each resource at each count.
fn exact(tail: &[f64], changes: &[(Resource, &[f64])]) -> Vec<ResourcePair> {
    let pair = |index: usize, repeat: usize| {
        // The same scatter at each count.
        let scatter = [-0.01, 0.01][repeat % 2];
        let mut values = vec![(1.0, 1.0 + scatter); metrics().len()];
        for (resource, change) in changes {
            values[place(*resource)].1 += change[index];
        }
        ResourcePair { count: 1 << index, tail: tail[index] + scatter, values }
    };
    (0..tail.len()).flat_map(|index| (0..4).map(move |repeat| pair(index, repeat))).collect()
}

const TAIL: [f64; 8] = [0.0, 0.001, 0.002, 0.003, 0.5, 1.0, 2.0, 3.0];

#[test]
fn resources_are_ordered_by_kind_and_count() {
    let early = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let with_tail = [0.0, 0.001, 0.002, 0.003, 4.0, 5.0, 6.0, 7.0];
    let late = [0.0, 0.001, 0.002, 0.003, 0.004, 5.0, 6.0, 7.0];
    let order = |changes: &[(Resource, &[f64])]| -> Vec<String> {
        let trends = ResourceTrends::new(&metrics(), &exact(&TAIL, changes));
        assert_eq!(trends.tail_first_move, Some(16));
        trends.moving().iter().map(|trend| trend.name.clone()).collect()
    };
    // What moved before the tail is not preferred to waiting that began with it; totals come last.
    let changes: [(Resource, &[f64]); 4] = [
        (Resource::CpusBusy, &early),
        (Resource::MemoryBandwidth, &early),
        (Resource::Steal, &late),
        (Resource::RunDelay, &with_tail),
    ];
    assert_eq!(order(&changes), ["run delay", "memory bandwidth", "steal", "CPUs busy"]);
    // Run delay contains the time in which a group is throttled.
    let changes: [(Resource, &[f64]); 2] = [(Resource::RunDelay, &early), (Resource::Throttled, &with_tail)];
    assert_eq!(order(&changes), ["throttled", "run delay"]);
    // Totals are not named.
    let total = ResourceTrends::new(&metrics(), &exact(&TAIL, &[(Resource::CpusBusy, &early)]));
    assert_eq!((total.moving().len(), total.first_to_move()), (1, None));
    // What moved before the tail is preferred to waiting that began later.
    let changes: [(Resource, &[f64]); 2] = [(Resource::MemoryBandwidth, &early), (Resource::RunDelay, &late)];
    assert_eq!(order(&changes), ["memory bandwidth", "run delay"]);
    // A resource may fall, but not the other way than it has moved.
    let falling = early.map(|change| -change);
    assert_eq!(order(&[(Resource::CacheOccupancy, &falling)]), ["LLC occupancy"]);
    let back = [0.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0];
    assert!(order(&[(Resource::CacheOccupancy, &back)]).is_empty());
}

#[test]
fn a_trend_has_its_figures() {
    let rising = [0.0, 0.001, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let trends = ResourceTrends::new(&metrics(), &exact(&TAIL, &[(Resource::RunDelay, &rising)]));
    let trend = &trends.resources[place(Resource::RunDelay)];
    assert_eq!((trend.alone, trend.first_move, trend.correlation), (1.0, Some(4), Some(1.0)));
    assert!((trend.correlation_p.unwrap() - 2.0 / 40_320.0).abs() < 1e-12);
    let change = trend.at_each_count[3];
    assert!((change.mean - 3.0).abs() < 1e-9 && (change.count, change.pairs) == (8, 4));
    let (low, high) = change.interval.unwrap();
    assert!(low > 2.9 && low < 3.0 && high > 3.0 && high < 3.1);
    // All others have the same change at each count.
    assert_eq!(trends.resources[0].unit, "ms/s");
    assert_eq!(trends.first_to_move().map(|trend| trend.name.as_str()), Some("run delay"));
}

#[test]
fn few_counts_and_single_pairs_name_nothing() {
    let rising = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let all = exact(&TAIL, &[(Resource::RunDelay, &rising)]);
    let three: Vec<ResourcePair> = all.iter().filter(|pair| pair.count > 16).cloned().collect();
    let trends = ResourceTrends::new(&metrics(), &three);
    assert_eq!((trends.resources[0].correlation, trends.first_to_move()), (None, None));
    let single: Vec<ResourcePair> = all.iter().step_by(4).cloned().collect();
    let trends = ResourceTrends::new(&metrics(), &single);
    assert_eq!((trends.tail[0].interval, trends.tail_first_move), (None, None));
    assert_eq!(trends.first_to_move(), None);
    assert_eq!(ResourceTrends::new(&metrics(), &[]), ResourceTrends::default());
}

/// A count at which a search took one pair, with a fault that happened once.
#[test]
fn a_single_pair_has_not_moved() {
    let steady = [(2, 0.0), (2, 0.1), (2, -0.1)];
    let moved = |more: &[(usize, f64)]| first_move(&changes(steady.iter().chain(more).copied()));
    assert_eq!(moved(&[(4, -110.0)]), None);
    assert_eq!(moved(&[(4, -110.0), (4, -109.9)]), Some(4));
    assert_eq!(moved(&[(4, -110.0), (4, -109.9), (8, 0.0)]), Some(4));
}

#[test]
fn all_but_totals_have_a_next_step() {
    for resource in Resource::all() {
        let is_total = Kind::of(resource.name()) == Kind::Total;
        assert_eq!(next_step(resource.name()).is_none(), is_total, "{}", resource.name());
    }
    assert_eq!(next_step("p99"), None);
}

proptest! {
    #[test]
    fn any_pairs_are_evaluated(
        pairs in prop::collection::vec((0usize..9, any::<f64>(), any::<f64>(), any::<f64>()), 0..30),
    ) {
        let pair = |&(count, tail, alone, at): &(usize, f64, f64, f64)| {
            ResourcePair { count, tail, values: vec![(alone, at)] }
        };
        let pairs: Vec<ResourcePair> = pairs.iter().map(pair).collect();
        let trends = ResourceTrends::new(&metrics(), &pairs);
        prop_assert!(trends.resources.len() <= 1);
        prop_assert!(trends.resources.iter().all(|trend| trend.alone.is_finite()));
        let _ = trends.moving();
    }
}
