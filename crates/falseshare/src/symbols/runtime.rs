//! Recognizes files that are a language's interpreter or virtual machine.

/// Prefix of the file name, and a function that the file exports. Both have to match: another program with
/// such a name lacks the function, and a program that embeds the interpreter has another name.
const RUNTIMES: [(&str, &str); 12] = [
    ("python", "Py_Initialize"),
    ("libpython", "Py_Initialize"),
    ("perl", "perl_run"),
    ("libperl", "perl_run"),
    ("ruby", "ruby_init"),
    ("libruby", "ruby_init"),
    ("lua", "lua_newstate"),
    ("liblua", "lua_newstate"),
    ("php", "php_module_startup"),
    ("libphp", "php_module_startup"),
    ("libjvm", "JNI_CreateJavaVM"),
    ("node", "napi_create_function"),
];

/// Returns the function that the file at `path` exports if it is an interpreter; `None` if its name does not match.
pub(super) fn function(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    // The name may be followed by a version and a suffix, but not by another word.
    let is_version = |rest: &str| {
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        rest.is_empty() || rest.starts_with(".so") || rest.starts_with(|first: char| first.is_ascii_digit())
    };
    let is_it = |(start, _): &&(&str, &str)| name.strip_prefix(start).is_some_and(is_version);
    RUNTIMES.iter().find(is_it).map(|(_, function)| *function)
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn an_interpreter_has_its_name_with_a_version_at_most() {
        for path in ["/usr/bin/python3.11", "/opt/lib/libpython3.11.so.1.0", "python3", "/x/libpython3.so"] {
            assert_eq!(function(path), Some("Py_Initialize"), "{path}");
        }
        assert_eq!(function("/usr/lib/jvm/lib/server/libjvm.so"), Some("JNI_CreateJavaVM"));
        assert_eq!(function("/usr/bin/perl"), Some("perl_run"));
        for path in ["/x/pythonic", "/x/my-python3", "/x/libpythonic.so", "/python3/server", ""] {
            assert_eq!(function(path), None, "{path}");
        }
    }
}
