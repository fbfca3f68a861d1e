//! The files that the settings of all variants stand for, with their original values.

use super::{
    Key, Setting, SettingError,
    location::{changes_cpus, is_of_cpu, is_of_interrupt},
    value::{choices, opposites, part, parts, present, same, value_of},
};
use manycore_topology::CpuSet;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// A file with its original value, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SettingFile {
    pub(super) path: PathBuf,
    pub(super) original: String,
}

/// The files that several settings stand for. They were read, and nothing was changed.
#[derive(Clone, Debug)]
pub struct SettingFiles {
    root: PathBuf,
    files: Vec<SettingFile>,
    /// What each setting writes: indices of files, with texts.
    texts: HashMap<Setting, Vec<(usize, String)>>,
    /// What is set, in the order of its first mention, with its files.
    keys: Vec<(Key, Vec<usize>)>,
}

impl SettingFiles {
    /// Reads the files of the settings of all variants, below `root`.
    ///
    /// # Errors
    /// A setting does not exist on this machine, cannot be restored, or does not have the wanted value.
    pub fn read<'a>(
        root: &Path,
        variants: impl IntoIterator<Item = &'a [Setting]>,
    ) -> Result<Self, SettingError> {
        let mut all =
            Self { root: root.to_owned(), files: Vec::new(), texts: HashMap::new(), keys: Vec::new() };
        for settings in variants {
            for setting in settings {
                if !all.texts.contains_key(setting) {
                    all.add(setting)?;
                }
            }
            all.wanted(settings)?;
        }
        all.check_cpus()?;
        Ok(all)
    }

    fn add(&mut self, setting: &Setting) -> Result<(), SettingError> {
        let files = match &setting.key {
            Key::Known(known) => known.files(&self.root, &setting.value)?,
            Key::File(location) => vec![(location.file(&self.root)?, setting.value.clone())],
        };
        let mut texts = Vec::new();
        for (path, text) in &files {
            let contents = read(path)?;
            for text in parts(path, text) {
                texts.push((self.index(path, text, &contents)?, text.to_owned()));
            }
        }
        let indices: Vec<usize> = texts.iter().map(|(index, _)| *index).collect();
        self.add_key(&setting.key, indices);
        self.texts.insert(setting.clone(), texts);
        Ok(())
    }

    /// Returns the index of the file with these contents, or of the part of it that is to be `text`.
    fn index(&mut self, path: &Path, text: &str, contents: &str) -> Result<usize, SettingError> {
        let refused =
            |choices| SettingError::Choices { path: path.to_owned(), value: text.to_owned(), choices };
        let is_part =
            |file: &SettingFile| file.path == path && part(path, &file.original) == part(path, text);
        let original = match opposites(path, contents) {
            Some(_) if !present(path, contents, text).is_empty() => present(path, contents, text).to_owned(),
            Some(opposites) => return Err(refused(opposites)),
            None => match choices(path, contents) {
                Some(choices) if !choices.iter().any(|choice| choice == text) => {
                    return Err(refused(choices));
                }
                _ => original(path, contents)?,
            },
        };
        Ok(self.files.iter().position(is_part).unwrap_or_else(|| {
            self.files.push(SettingFile { path: path.to_owned(), original });
            self.files.len() - 1
        }))
    }

    /// Adds what is set. Settings of several parts of one file are one.
    fn add_key(&mut self, key: &Key, indices: Vec<usize>) {
        let of_same = |other: &[usize]| {
            let file = |index: usize| &self.files[index];
            let is_part = |index: usize| part(&file(index).path, &file(index).original).is_some();
            let same_file =
                || matches!((other, &indices[..]), (&[a, ..], &[b, ..]) if file(a).path == file(b).path);
            other == indices || (indices.iter().copied().all(is_part) && same_file())
        };
        let known = self.keys.iter().position(|(_, other)| of_same(other));
        match known.and_then(|at| self.keys.get_mut(at)) {
            Some((_, known)) => {
                let new: Vec<usize> = indices.into_iter().filter(|index| !known.contains(index)).collect();
                known.extend(new);
            }
            None => self.keys.push((key.clone(), indices)),
        }
    }

    /// CPUs that go offline take files with them, and the kernel changes the CPUs of interrupts. SMT takes the same CPUs
    /// offline as their own files, and brings back those that were offline before.
    fn check_cpus(&self) -> Result<(), SettingError> {
        let Some(path) = self.cpus_file() else { return Ok(()) };
        let refused = |file: &Path, why: &str| {
            let with = format!("{}, {why}", file.display());
            Err(SettingError::TakesCpus { path: path.to_owned(), with })
        };
        let files = || self.files.iter().map(|file| file.path.as_path());
        if let Some(of_cpu) = files().find(|file| is_of_cpu(file) && !changes_cpus(file)) {
            return refused(of_cpu, "which may vanish with them");
        }
        if let Some(interrupt) = files().find(|file| is_of_interrupt(file)) {
            return refused(interrupt, "which the kernel changes then");
        }
        let Some(smt) = files().find(|file| is_smt(file)) else { return Ok(()) };
        if let Some(other) = files().find(|file| changes_cpus(file) && *file != smt) {
            return refused(other, "which changes the same CPUs");
        }
        match offline_cpus(&self.root) {
            Some(offline) => Err(SettingError::NotASetting {
                path: smt.to_owned(),
                why: format!("CPUs {offline} are offline, and restoring SMT would bring them online"),
            }),
            None => Ok(()),
        }
    }

    /// Returns the files with the CPUs of all interrupts, where settings take CPUs offline: the kernel changes them then.
    pub(super) fn interrupts(&self) -> Vec<SettingFile> {
        if self.cpus_file().is_none() {
            return Vec::new();
        }
        let directories = fs::read_dir(self.root.join("proc/irq")).into_iter().flatten().flatten();
        let files = directories.map(|directory| directory.path().join("smp_affinity_list"));
        let file = |path: PathBuf| {
            let original = value_of(&fs::read_to_string(&path).ok()?).to_owned();
            Some(SettingFile { path, original })
        };
        files.filter_map(file).collect()
    }

    /// Whether all files that take CPUs offline have their original values among these.
    pub(super) fn has_original_cpus(&self, values: &[String]) -> bool {
        let mut of_cpus = self.files.iter().zip(values).filter(|(file, _)| changes_cpus(&file.path));
        of_cpus.all(|(file, value)| same(value, &file.original))
    }

    /// Returns a file whose settings take CPUs offline.
    pub(super) fn cpus_file(&self) -> Option<&Path> {
        self.files.iter().map(|file| file.path.as_path()).find(|path| changes_cpus(path))
    }

    /// Returns the file with which these settings take CPUs offline or bring them back, compared with what was found.
    pub fn changes_cpus(&self, settings: &[Setting]) -> Option<&Path> {
        let wanted = self.wanted(settings).ok()?;
        let mut changed = self.files.iter().zip(wanted).filter(|(file, text)| !same(text, &file.original));
        changed.find(|(file, _)| changes_cpus(&file.path)).map(|(file, _)| file.path.as_path())
    }

    /// Whether there is nothing to switch.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the files.
    pub(super) fn files(&self) -> &[SettingFile] {
        &self.files
    }

    /// Returns the text that each file has while a variant with these settings runs.
    pub(super) fn wanted(&self, settings: &[Setting]) -> Result<Vec<String>, SettingError> {
        let mut wanted: Vec<Option<&str>> = vec![None; self.files.len()];
        for (index, text) in settings.iter().filter_map(|setting| self.texts.get(setting)).flatten() {
            match wanted[*index] {
                Some(first) if !same(first, text) => {
                    let path = self.files[*index].path.clone();
                    return Err(SettingError::Twice { path, first: first.to_owned(), second: text.clone() });
                }
                _ => wanted[*index] = Some(text),
            }
        }
        let texts = wanted.into_iter().zip(&self.files);
        Ok(texts.map(|(text, file)| text.unwrap_or(&file.original).to_owned()).collect())
    }

    /// Describes what is in force while a variant with these settings runs, including the original values of what other
    /// variants set: `thp=madvise, kernel.numa_balancing=0`.
    pub fn describe(&self, settings: &[Setting]) -> String {
        let Ok(wanted) = self.wanted(settings) else { return String::new() };
        let each = self.keys.iter().map(|(key, indices)| {
            let mut values: Vec<String> = Vec::new();
            for &index in indices {
                let value = match key {
                    Key::Known(known) => known.value_of(&self.root, &wanted[index]),
                    Key::File(_) => wanted[index].clone(),
                };
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            let is_part = indices.iter().any(|&index| part(&self.files[index].path, "").is_some());
            format!("{key}={}", values.join(if is_part { "," } else { " and " }))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Returns the commands for a shell that put these settings in force.
    pub fn shell_commands(&self, settings: &[Setting]) -> Vec<String> {
        let mut commands = Vec::new();
        for texts in settings.iter().filter_map(|setting| self.texts.get(setting)) {
            // The files of one setting have the same text, and the parts of one file have one each.
            for same in texts.chunk_by(|(_, a), (_, b)| a == b) {
                let text = same.first().map(|(_, text)| text.as_str()).unwrap_or_default();
                let files: Vec<String> =
                    same.iter().map(|(index, _)| self.files[*index].path.display().to_string()).collect();
                commands.push(format!("echo {text} | sudo tee {}", files.join(" ")));
            }
        }
        commands
    }

    /// Whether these settings leave every file as it was found.
    pub fn is_original(&self, settings: &[Setting]) -> bool {
        self.wanted(settings)
            .is_ok_and(|wanted| wanted.iter().zip(&self.files).all(|(text, file)| same(text, &file.original)))
    }
}

fn is_smt(file: &Path) -> bool {
    file.ends_with("devices/system/cpu/smt/control")
}

/// Returns the CPUs that are present and offline, as the kernel lists them.
fn offline_cpus(root: &Path) -> Option<CpuSet> {
    let list = |name: &str| -> Option<CpuSet> {
        let text = fs::read_to_string(root.join("sys/devices/system/cpu").join(name)).ok()?;
        text.trim().parse().ok()
    };
    let (present, online) = (list("present")?, list("online")?);
    let offline: CpuSet = present.iter().filter(|&cpu| !online.contains(cpu)).collect();
    (!offline.is_empty()).then_some(offline)
}

/// Reads the text of a file.
pub(super) fn read(path: &Path) -> Result<String, SettingError> {
    fs::read_to_string(path).map_err(|error| SettingError::Unreadable { path: path.to_owned(), error })
}

/// Returns the value of a file that will be restored.
fn original(path: &Path, contents: &str) -> Result<String, SettingError> {
    let value = value_of(contents);
    let why = match value {
        "" => "it is empty, so nothing could be restored",
        _ if value.contains('\n') => "it has several lines, which could not be restored",
        _ => return Ok(value.to_owned()),
    };
    Err(SettingError::NotASetting { path: path.to_owned(), why: why.to_owned() })
}
