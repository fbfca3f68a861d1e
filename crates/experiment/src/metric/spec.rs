//! SPEC CPU 2006, 2017 and later: scores from a result file (`.csv`, `.rsf`, `.txt`), or from the output of
//! `runcpu`.
//!
//! Tested with the format of published reports only, not with the suites themselves.

use crate::metric::{
    RunOutput,
    figures::{Figure, Figures, higher, not_output_of},
    number,
    source::TICK,
};
use regex_lite::Regex;
use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Reads scores such as `SPECrate2017_int_base`, or `base` and `peak` from `.rsf`. The first one in the
/// report is primary.
pub(super) fn read(pattern: Option<&str>, output: &RunOutput) -> Result<Figures, String> {
    let Some(pattern) = pattern else {
        return found(scores(output.stdout), || {
            not_output_of("runcpu", "score such as SPECrate2017_int_base", output.stdout)
        });
    };
    let path = newest(pattern, output.since)?;
    let bytes = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    found(scores(&String::from_utf8_lossy(&bytes)), || {
        format!("{} contains no SPEC CPU score; a suite that ran only in part has none", path.display())
    })
}

fn found(scores: Figures, otherwise: impl Fn() -> String) -> Result<Figures, String> {
    if scores.is_empty() { Err(otherwise()) } else { Ok(scores) }
}

/// Returns the file written last in the folder of `pattern`. The file name may contain `*` and `?`.
fn newest(pattern: &str, since: SystemTime) -> Result<PathBuf, String> {
    let path = Path::new(pattern);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.to_string_lossy().contains(['*', '?']) {
        return Err(format!("spec={pattern}: only the file name may contain * and ?, not its directory"));
    }
    let glob = regex_lite::escape(&name).replace("\\*", ".*").replace("\\?", ".");
    let glob = Regex::new(&format!("^(?s:{glob})$")).map_err(|error| format!("spec={pattern}: {error}"))?;
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let newest = entries
        .flatten()
        .filter(|entry| glob.is_match(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| fs::metadata(entry.path()).ok().map(|file| (file, entry.path())))
        .filter_map(|(file, path)| Some((file.is_file().then(|| file.modified().ok())??, path)))
        .max();
    match newest {
        None => Err(format!("spec={pattern}: no file matches after the run")),
        Some((written, path)) if written + TICK < since => Err(format!(
            "{} is older than the run, which wrote no file that matches spec={pattern}",
            path.display()
        )),
        Some((_, path)) => Ok(path),
    }
}

/// Returns each score once. Scores that are "Not Run", `--` or zero are left out.
fn scores(text: &str) -> Figures {
    let mut figures = Figures::new();
    for figure in text.lines().filter_map(score).filter(|(_, value)| *value > 0.0) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    figures
}

fn score(line: &str) -> Option<Figure> {
    let line = line.trim().trim_start_matches("Est. ").trim_start();
    if let Some((key, value)) = line.strip_prefix("spec.cpu").and_then(|line| line.split_once(':')) {
        let name = match key.trim_start_matches(|sign: char| sign.is_ascii_digit()) {
            ".basemean" => "base",
            ".peakmean" => "peak",
            _ => return None,
        };
        return Some(higher(name, "", number::plain(value)?));
    }
    let line = line.replace("(R)", "").replace(['=', ',', '"'], " ");
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| is_score(name))?;
    Some(higher(name, "", number::plain(words.next()?)?))
}

/// `SPECint_base2006`, `SPECrate2017_fp_peak`.
fn is_score(name: &str) -> bool {
    let kind = name.strip_prefix("SPEC").unwrap_or_default();
    ["int", "fp", "rate", "speed"].iter().any(|start| kind.starts_with(start)) && kind.contains("20")
}
