//! Versions of the kernel, and what differs between them.

use std::{fs, sync::OnceLock};

/// Major and minor number of a kernel release; absent if the release cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release(Option<(u32, u32)>);

impl Release {
    /// Parses a release such as `7.2.13+deb14-cloud-amd64`.
    pub fn parse(text: Option<&str>) -> Self {
        Self(text.and_then(|text| {
            let mut numbers = text.trim().split(|letter: char| !letter.is_ascii_digit());
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        }))
    }

    /// Whether the kernel is this version or newer; `None` if the release is unknown.
    pub fn is_since(self, major: u32, minor: u32) -> Option<bool> {
        self.0.map(|release| release >= (major, minor))
    }
}

/// Whether the kernel sets the affinity of a task to all CPUs of its cpuset whenever that cpuset changes: when the controller
/// is enabled or disabled above it, when it enters a group, and when the group's CPUs are written. Since Linux 6.2 the kernel
/// keeps what `sched_setaffinity(2)` asked for (commits 8f9ea86fdf99 and da019032819a), and leaves tasks alone whose CPUs stay
/// the same (7fd4da9c1584). An unknown kernel counts as one that resets affinities, and so does one with these commits and an
/// older version.
pub fn resets_affinities() -> bool {
    static RESETS: OnceLock<bool> = OnceLock::new();
    *RESETS.get_or_init(|| resets(fs::read_to_string("/proc/sys/kernel/osrelease").ok().as_deref()))
}

fn resets(release: Option<&str>) -> bool {
    Release::parse(release).is_since(6, 2) != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        let since = |text, major, minor| Release::parse(Some(text)).is_since(major, minor);
        assert_eq!(since("6.10.3-arch1", 6, 6), Some(true));
        assert_eq!(since("6.6.0-72.oe2403", 6, 7), Some(false));
        assert_eq!(since("5.10-rc1", 5, 10), Some(true));
        assert_eq!(since("unknown", 5, 10), None);
        assert_eq!(Release::parse(None).is_since(1, 0), None);
    }

    #[test]
    fn releases_before_6_2_reset_affinities() {
        for release in ["5.10.0-28-amd64", "6.1.0-57-cloud-amd64", "5.14.0-427.el9", "unknown"] {
            assert!(resets(Some(release)), "{release}");
        }
        for release in ["6.2.0", "6.18.4", "7.2.13+deb14-cloud-amd64\n"] {
            assert!(!resets(Some(release)), "{release}");
        }
        assert!(resets(None));
    }
}
