//! Commands as they are typed.

/// Formats a command so that it can be typed into a shell. Only words that a shell would change are quoted.
pub fn format_command(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./{}-".contains(c))
    };
    let quoted = |word: &String| {
        if plain(word) {
            word.clone()
        } else {
            shlex::try_quote(word).map_or_else(|_| word.clone(), Into::into)
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_quoted_only_where_it_matters() {
        let words = ["sh", "-c", "a b", "--x=1", "", "it's"].map(str::to_owned);
        assert_eq!(format_command(&words), "sh -c 'a b' --x=1 '' \"it's\"");
    }
}
