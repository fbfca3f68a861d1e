//! The critical value of a rank statistic, from the lower tail of its null distribution.

/// Returns the largest number, from 0 to `half`, whose two-sided probability is at most `level`: so many values lie
/// beyond each end of the interval. `lower_tail` returns P(statistic <= limit). `None` where there is no such interval.
pub(crate) fn critical_value(half: usize, level: f64, lower_tail: impl Fn(usize) -> f64) -> Option<usize> {
    let (mut beyond, mut too_many) = (0, half + 1);
    if 2.0 * lower_tail(0) > level {
        return None;
    }
    while too_many - beyond > 1 {
        let middle = usize::midpoint(beyond, too_many);
        if 2.0 * lower_tail(middle) <= level { beyond = middle } else { too_many = middle }
    }
    Some(beyond)
}

/// Returns how many standard errors half of the width of a signed-rank interval of `n` differences is, at the level that
/// it attains. `None` where there is no interval.
pub(crate) fn of_ranks(n: usize, level: f64) -> Option<f64> {
    let attained = crate::attained_level(n, level)?;
    Some(crate::student_quantile(attained / 2.0, n as f64 - 1.0))
}
