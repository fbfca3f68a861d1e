//! Versions of the kernel.

/// Major and minor number of a kernel release; absent if the release cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release(Option<(u32, u32)>);

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
}
