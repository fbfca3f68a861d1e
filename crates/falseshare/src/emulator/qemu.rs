//! Finds the emulator, checks what it supports, and starts it.

use super::Program;
use crate::{
    error::{Error, Result, system},
    shadow::sys,
};
use flate2::read::ZlibDecoder;
use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The plugin, compressed; empty where it cannot be built for the target.
static PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plugin.so.zlib"));
/// The library that is preloaded into programs, compressed.
static PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so.zlib"));

/// The environment variable from which a program learns how it was started: the paths of emulator, plugin,
/// region and library, separated by `;`.
const VARIABLE: &str = "MANYCORE_EMULATOR";

/// An emulator that supports plugins.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// Path of the emulator.
    pub path: PathBuf,
    /// Its version: `qemu-x86_64 version 7.2.22`.
    pub version: String,
}

/// Finds the emulator for programs of this architecture.
///
/// # Errors
/// [`Error::NoEmulator`], [`Error::NoPlugins`], [`Error::NoPlugin`].
pub fn find() -> Result<Emulator> {
    if PLUGIN.is_empty() {
        return Err(Error::NoPlugin(env::consts::ARCH));
    }
    let name = format!("qemu-{}", env::consts::ARCH);
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/local/bin")])
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file());
    let Some(path) = found else { return Err(Error::NoEmulator(name)) };
    let said = |argument: &str| {
        let output = Command::new(&path).arg(argument).stdin(Stdio::null()).output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .map_err(system("running the emulator to get its version"))
    };
    if !said("-h")?.contains("-plugin") {
        return Err(Error::NoPlugins(path.display().to_string()));
    }
    let version = said("--version")?;
    let version = version.lines().next().unwrap_or_default();
    let version = version.split(" (").next().unwrap_or_default().trim().to_owned();
    Ok(Emulator { path, version })
}

/// The files and paths that starting the emulator needs. They have to live as long as programs run in it.
#[derive(Debug)]
pub struct Launch {
    emulator: PathBuf,
    region: String,
    plugin: File,
    preload: File,
}

impl Launch {
    /// Creates anonymous files with the plugin and the library.
    ///
    /// # Errors
    /// Those of `memfd_create(2)` and writing.
    pub fn new(emulator: &Emulator, region: &File) -> Result<Self> {
        let file = |name, contents| {
            let mut file = sys::memory_file(name)?;
            io::copy(&mut ZlibDecoder::new(contents), &mut file)?;
            Ok(file)
        };
        let file = |name, contents| file(name, contents).map_err(system("memory for the plugin"));
        Ok(Self {
            emulator: emulator.path.clone(),
            region: path_of(region),
            plugin: file(c"manycore-plugin", PLUGIN)?,
            preload: file(c"manycore-preload", PRELOAD)?,
        })
    }

    /// Returns the command that runs `program` in the emulator.
    pub fn command(&mut self, program: &Program) -> Command {
        let mut command = Command::new(&self.emulator);
        command.arg("-plugin").arg(format!("{},region={}", path_of(&self.plugin), self.region));
        if let Some(name) = program.arguments.first() {
            command.arg("-0").arg(name);
        }
        if program.is_dynamic {
            self.preload(&mut command);
        }
        command.env(VARIABLE, self.value());
        command.arg(absolute(&program.path)).args(program.arguments.iter().skip(1));
        command
    }

    /// Returns the variable that is in the environment of all observed programs, as `NAME=VALUE`.
    pub fn environment_mark(&self) -> String {
        format!("{VARIABLE}={}", self.value())
    }

    fn value(&self) -> String {
        let (plugin, preload) = (path_of(&self.plugin), path_of(&self.preload));
        format!("{};{plugin};{};{preload}", self.emulator.display(), self.region)
    }

    /// Makes the program, and not the emulator, load our library, followed by those in the user's `LD_PRELOAD`.
    fn preload(&self, command: &mut Command) {
        let mut value = OsString::from(format!("LD_PRELOAD={}", path_of(&self.preload)));
        if let Some(theirs) = env::var_os("LD_PRELOAD").filter(|theirs| !theirs.is_empty()) {
            value.push(":");
            value.push(theirs);
        }
        command.env_remove("LD_PRELOAD").arg("-E").arg(value);
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Returns a path to an open file of this process. Other processes can open it as long as this process runs.
fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
