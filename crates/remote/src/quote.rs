//! Words for a shell on another host.

/// Returns words as one line that a shell reads as exactly these words. Every word is in single quotes, which all shells
/// that are used for logins read in the same way, unless a word has quotes or backslashes.
pub(crate) fn quote(words: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A shell reads the words as they were.
        #[test]
        fn words_survive_a_shell(words in prop::collection::vec("[^\0]{0,20}", 1..5)) {
            let line = format!("printf '%s\\0' {}", quote(&words));
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let found: Vec<&str> = said.split_terminator('\0').collect();
            prop_assert_eq!(found, words);
        }
    }
}
