//! Names of the directories of hosts.

use std::fmt::Write as _;

/// Longest name of a directory of a host. File systems take 255 bytes.
const LONGEST_NAME: usize = 200;

/// Returns the name of the directory of a host: its own name where that can be one. A name that is too long keeps its beginning,
/// with a hash of the whole.
pub fn directory_name(host: &str) -> String {
    let mut name = String::new();
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            b'.' if !name.is_empty() => name.push('.'),
            // Unlike any part of a name that needs no escape, as these have no %.
            _ => {
                let _infallible = write!(name, "%{byte:02x}");
            }
        }
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME);
        // Other names have no ~.
        let _infallible = write!(name, "~{:016x}", hash(host));
    }
    name
}

/// Returns the FNV-1a hash of a text, of 64 bits: it is the same on all machines and in all versions.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the name of the host whose directory this is; only its beginning where the name was too long.
pub fn host_name(directory: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = directory.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        (bytes, rest) = match code {
            Some(byte) => ([bytes, vec![byte]].concat(), &after[2..]),
            None => ([bytes, vec![first]].concat(), after),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_cannot_leave_the_folder() {
        assert_eq!(directory_name("n1.example-x_y"), "n1.example-x_y");
        assert_eq!(directory_name("user@host"), "user%40host");
        assert_eq!(directory_name("ssh://h:22"), "ssh%3a%2f%2fh%3a22");
        for hostile in ["..", ".", "../../etc", "a/b", "\0"] {
            let name = directory_name(hostile);
            assert!(!name.contains('/') && !name.starts_with('.') && !name.contains('\0'), "{name}");
        }
    }

    /// Regression: hosts with long names that begin in the same way shared a directory.
    #[test]
    fn long_names_stay_different() {
        let host = |end: char| format!("{}{end}", "n".repeat(300));
        let names =
            [directory_name(&host('a')), directory_name(&host('b')), directory_name(&"n".repeat(200))];
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() <= 255), "{names:?}");
        assert_eq!(names[2], "n".repeat(200));
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    proptest! {
        #[test]
        fn each_host_has_a_directory_of_its_own(host in "[ -~]{1,60}") {
            prop_assert_eq!(host_name(&directory_name(&host)), host);
        }
    }
}
