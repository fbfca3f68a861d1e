//! The conditions under which all runs of a study are made: checked before anything is measured, and kept in the record.

use crate::{
    Options,
    error::{Error, Result},
    format_command,
    life::{HookKind, IgnoredFailures},
    subject::{DROP_CACHES, SETTLE, SchedulerRuns, Variant},
};
use manycore_control::{
    cleanup::Program,
    journal,
    setting::{Setting, SettingError, SettingFiles, SettingSwitch},
};
use manycore_experiment::{
    metric::{LoadModel, load_model},
    record::parameter,
};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use manycore_stats::median;
use manycore_text::units::percent;
use manycore_topology::CpuSet;
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Starts of a shell from which its start-up time is estimated.
const SHELL_STARTS: usize = 20;

/// Returns the files that the settings of all variants stand for.
///
/// # Errors
/// A setting cannot be switched on this machine.
pub(crate) fn setting_files(variants: &[Variant]) -> Result<SettingFiles> {
    Ok(SettingFiles::read(Path::new("/"), settings_of(variants))?)
}

fn settings_of(variants: &[Variant]) -> impl Iterator<Item = &[Setting]> {
    variants.iter().map(|variant| variant.settings.as_slice())
}

/// Begins to switch the settings of the variants, if they have any, and tries them.
///
/// # Errors
/// A setting cannot be switched, or cannot be combined with a placement or service.
pub(crate) fn switch(
    subcommand: &str,
    options: &Options,
    variants: &[Variant],
) -> Result<Option<SettingSwitch>> {
    let files = setting_files(variants)?;
    if files.is_empty() {
        return Ok(None);
    }
    check_cpus(&files, options, variants)?;
    let request = format!("{subcommand}: settings of the machine");
    let switch = SettingSwitch::begin(files, &journal::folder(), (subcommand, &request), &Program::own())?;
    Ok(Some(switch.tried(settings_of(variants))?))
}

/// Placements are planned for the CPUs that are online at the start.
fn check_cpus(files: &SettingFiles, options: &Options, variants: &[Variant]) -> Result {
    for variant in variants {
        let Some(path) = files.changes_cpus(&variant.settings) else { continue };
        let with = match (&options.service, variant.place.workers.is_empty()) {
            (Some(_), _) => "a service, whose CPUs may be among them",
            (None, false) => {
                "a placement, whose CPUs may be among them: leave it out, or use +nosmt instead of smt"
            }
            (None, true) => continue,
        };
        return Err(SettingError::TakesCpus { path: path.to_owned(), with: with.to_owned() }.into());
    }
    Ok(())
}

/// Checks that each run can have its standard input and empty caches.
///
/// # Errors
/// [`Error::System`] for the file, [`Error::DropCaches`].
pub(crate) fn check(options: &Options) -> Result {
    if let Some(input) = &options.input {
        let opened = std::fs::File::open(input).and_then(|file| {
            if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
        });
        opened.map_err(Error::system(format!("open {} as standard input", input.display())))?;
    }
    if options.drop_caches {
        OpenOptions::new().write(true).open(DROP_CACHES).map_err(Error::DropCaches)?;
    }
    Ok(())
}

/// Returns the parameters of the record that describe the conditions.
pub(crate) fn parameters(
    options: &Options,
    variants: &[Variant],
    load_cpus: Option<&CpuSet>,
    files: Option<&SettingFiles>,
) -> BTreeMap<String, String> {
    let ignored = match &options.ignored_failures {
        IgnoredFailures::None => None,
        IgnoredFailures::All => Some("all".to_owned()),
        IgnoredFailures::Codes(codes) => Some(codes.iter().map(i32::to_string).collect::<Vec<_>>().join(",")),
    };
    let (generator, model) = load(options, variants);
    let known = [
        (parameter::LOAD_GENERATOR, generator),
        (parameter::LOAD_MODEL, model),
        (parameter::SERVICE, options.service.as_ref().map(ToString::to_string)),
        (parameter::LOAD_CPUS, load_cpus.map(ToString::to_string)),
        (parameter::ORIGINAL_SETTINGS, files.map(|files| files.describe(&[]))),
        (parameter::INPUT, options.input.as_ref().map(|input| input.display().to_string())),
        (parameter::SHELL, options.shell.as_deref().map(format_command)),
        (parameter::DROP_CACHES, options.drop_caches.then(|| "yes".to_owned())),
        (parameter::IGNORED_FAILURES, ignored),
    ];
    let hooks = HookKind::ALL.map(|kind| (kind.name(), hook_lines(kind, variants)));
    let all = known.into_iter().chain(hooks);
    all.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the parameters of the record that describe the schedulers: the kernel's name of each, and the time between a
/// switch and the next run. There are none where only the kernel's own one is in force.
pub(crate) fn scheduler_parameters(schedulers: &SchedulerRuns) -> BTreeMap<String, String> {
    let names: Vec<String> =
        schedulers.names().iter().map(|(label, name)| format!("{label} = {name}")).collect();
    if names.is_empty() {
        return BTreeMap::new();
    }
    BTreeMap::from([
        (parameter::SCHEDULERS.to_owned(), names.join(", ")),
        (parameter::SCHEDULER_SETTLE_SECONDS.to_owned(), SETTLE.as_secs_f64().to_string()),
    ])
}

/// The load generator whose latencies are read, and its model: closed where it is for any of the variants.
fn load(options: &Options, variants: &[Variant]) -> (Option<String>, Option<String>) {
    let models = options
        .readers
        .iter()
        .flat_map(|reader| variants.iter().filter_map(move |variant| load_model(reader, &variant.command)));
    let found = models.min_by_key(|(_, model)| *model == LoadModel::Open);
    found.map(|(name, model)| (name, model.name().to_owned())).unzip()
}

/// Returns the commands of a hook, each once.
fn hook_lines(kind: HookKind, variants: &[Variant]) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in variants.iter().filter_map(|variant| variant.hooks.command(kind)).map(format_command) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Returns the seconds in which `shell` starts and ends: the median of some starts.
///
/// # Errors
/// [`Error::System`] if it cannot be started.
pub(crate) fn shell_seconds(shell: &[String]) -> Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..SHELL_STARTS {
        let began = Instant::now();
        let mut command = Command::new(&shell[0]);
        command.args(&shell[1..]).args(["-c", ":"]);
        let failed = || format!("start the shell {}", shell[0]);
        let job =
            Job::start(&mut command, &StartPlacement::default(), false).map_err(Error::system(failed()))?;
        let mut jobs = [job];
        while !job::wait(&mut jobs, Duration::from_secs(1), &mut |_| {}).map_err(Error::system(failed()))? {
            manycore_experiment::interrupt::check()?;
        }
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(&seconds).unwrap_or_default())
}

/// Returns the note on a shell that takes `start` seconds to start, beside a fastest run of `run` seconds; none where
/// that is within the margin.
pub(crate) fn shell_note(shell: &[String], start: f64, run: f64, margin: f64) -> Option<String> {
    let share = start / run.max(start);
    (share > margin).then(|| {
        format!(
            "Each run includes the start of {}, which takes {:.1} ms ({} of the fastest run): it makes differences look \
             smaller. --shell none starts the command directly.",
            format_command(shell),
            start * 1e3,
            percent(share),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::Hooks;

    #[test]
    fn the_start_of_a_shell_is_noted_where_it_matters() {
        let shell = ["bash".to_owned()];
        assert_eq!(shell_note(&shell, 0.001, 1.0, 0.02), None);
        let note = shell_note(&shell, 0.001, 0.004, 0.02).unwrap();
        assert!(note.starts_with("Each run includes the start of bash, which takes 1.0 ms (25 %"), "{note}");
    }

    #[test]
    fn commands_of_hooks_are_recorded_once() {
        let variant = |line: &str| Variant {
            hooks: Hooks { prepare: Some(vec![line.to_owned()]), ..Hooks::default() },
            ..Variant::default()
        };
        let variants = [variant("a"), variant("b"), variant("a")];
        assert_eq!(hook_lines(HookKind::Prepare, &variants).as_deref(), Some("a; b"));
        assert_eq!(hook_lines(HookKind::Setup, &variants), None);
    }
}
