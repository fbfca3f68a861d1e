//! Words for a shell on another host.

/// Bytes that no shell that is used for logins changes within single quotes.
const PLAIN: &[u8] = b" ._/:=,@+-";

/// Returns a line that each login shell reads as exactly these words: it executes them with `/bin/sh`. In csh, quotes protect
/// neither `!` nor the end of a line, and in fish not all backslashes. Therefore the words are encoded as `printf %b` decodes
/// them, except letters, digits and [`PLAIN`].
pub(crate) fn login_line(words: &[String]) -> String {
    format!(r#"exec /bin/sh -c 'eval "exec $(printf %b "$1")"' sh '{}'"#, encoded(&quote(words)))
}

/// Returns words as a POSIX shell reads them.
fn quote(words: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        plain if plain.is_ascii_alphanumeric() || PLAIN.contains(&plain) => (plain as char).to_string(),
        other => format!("\\0{other:03o}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{io::ErrorKind, process::Command};

    /// Shells of logins, with options that keep files of the user out.
    const SHELLS: [(&str, &[&str]); 6] = [
        ("sh", &[]),
        ("bash", &["--norc"]),
        ("tcsh", &["-f"]),
        ("csh", &["-f"]),
        ("zsh", &["-f"]),
        ("fish", &["-N"]),
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A shell reads the words as they were.
        #[test]
        fn words_survive_the_shells_of_logins(words in prop::collection::vec("[^\0]{0,20}|[!\n'\\\\\"$`a]{0,9}", 1..5)) {
            let command: Vec<String> = ["printf", "%s\\0"].map(str::to_owned).into_iter().chain(words.clone()).collect();
            for (shell, options) in SHELLS {
                let output = match Command::new(shell).args(options).args(["-c", &login_line(&command)]).output() {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    output => output.unwrap(),
                };
                let said = String::from_utf8(output.stdout).unwrap();
                let found: Vec<&str> = said.split_terminator('\0').collect();
                prop_assert_eq!(&found, &words, "{}: {}", shell, String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}
