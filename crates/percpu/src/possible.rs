//! The number of possible CPUs.

use std::sync::OnceLock;

/// Limit above which the value in `/sys` is rejected: the kernel's `NR_CPUS` is at most 8192.
const MAX_CPUS: u32 = 1 << 16;

/// Returns one more than the highest number of a possible CPU, that is of one that can come online while the
/// system runs (`/sys/devices/system/cpu/possible`, or the C library's value if that cannot be read). At
/// least 1.
pub(crate) fn cpus() -> u32 {
    static CPUS: OnceLock<u32> = OnceLock::new();
    *CPUS.get_or_init(|| listed().unwrap_or_else(|| configured(libc::_SC_NPROCESSORS_CONF)))
}

/// Returns the number of online CPUs, which is that of the shards for threads without a registration. At
/// least 1.
pub(crate) fn online() -> u32 {
    configured(libc::_SC_NPROCESSORS_ONLN)
}

fn configured(name: libc::c_int) -> u32 {
    // SAFETY: `sysconf` takes a number and returns one.
    let count = unsafe { libc::sysconf(name) };
    u32::try_from(count).unwrap_or(1).clamp(1, MAX_CPUS)
}

fn listed() -> Option<u32> {
    if cfg!(miri) {
        return None;
    }
    end_of(&std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?)
}

/// Returns one more than the last CPU of a kernel list such as `0-3,8`, whose parts are in ascending order.
fn end_of(list: &str) -> Option<u32> {
    let end: u32 = list.trim().rsplit([',', '-']).next()?.parse().ok()?;
    (end < MAX_CPUS).then(|| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_kernel_lists() {
        for (list, end) in [("0\n", 1), ("0-1\n", 2), ("0-3,8\n", 9), ("0,2,4-255\n", 256)] {
            assert_eq!(end_of(list), Some(end), "{list:?}");
        }
    }

    #[test]
    fn invalid_lists_have_no_end() {
        for list in ["", "\n", "many", "0-", "0--1 x", "99999999999", "0-65536"] {
            assert_eq!(end_of(list), None, "{list:?}");
        }
    }

    #[test]
    fn there_are_at_least_as_many_possible_cpus_as_are_on_line() {
        assert!(cpus() >= online() && online() >= 1);
    }

    proptest! {
        #![proptest_config(crate::cases())]

        #[test]
        fn hostile_text_is_no_panic(text in ".{0,40}") {
            prop_assert!(end_of(&text).is_none_or(|end| end <= MAX_CPUS));
        }
    }
}
