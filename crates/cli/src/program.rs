//! Programs that a command line names.

use rustix::thread::set_name;
use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Names this process after the program if it was started as `/proc/self/exe`, which the kernel calls `exe`.
pub fn set_own_name() {
    if fs::read_to_string("/proc/self/comm").is_ok_and(|name| name.trim_end() == "exe") {
        // A name is a help for users only.
        let _ = set_name(c"manycore");
    }
}

/// Returns the file that a program's name means, as `execvp(3)` finds it.
pub fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|path| !name.is_empty() && is_executable(path))
}

/// Checks that a program can be started.
///
/// # Errors
/// The reason, with the word to type instead if the name is that of a file here.
pub fn check(name: &str) -> Result<(), String> {
    let path = Path::new(name);
    match find(name) {
        Some(_) => Ok(()),
        None if !path.exists() => Err(format!("there is no program '{name}'")),
        None if path.is_dir() => Err(format!("'{name}' is a directory, not a program")),
        None if is_executable(path) => {
            Err(format!("'{name}' is not in PATH: for the file here, type ./{name}"))
        }
        None => {
            Err(format!("the file '{name}' is not executable: type sh {name}, or the program that reads it"))
        }
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_other_names_explained() {
        assert!(find("sh").is_some() && find("/bin/sh").is_some());
        assert!(find("").is_none() && find("/").is_none() && find("no-such-program").is_none());
        assert_eq!(check("no-such-program"), Err("there is no program 'no-such-program'".to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("a.sh");
        fs::write(&script, "echo").unwrap();
        let name = script.to_str().unwrap();
        assert!(
            check(name)
                .is_err_and(|why| why.contains("not executable") && why.contains(&format!("sh {name}")))
        );
        assert!(check(folder.path().to_str().unwrap()).is_err_and(|why| why.contains("a directory")));
    }
}
