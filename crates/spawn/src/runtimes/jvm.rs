//! Java: virtual threads from version 21 on, platform threads before.

use crate::{
    cache::ProgramCache,
    error::{Error, Result},
    runtimes::{RuntimeProgram, compile, installed, version},
};
use manycore_experiment::spawning::Runtime;
use std::{fs, path::PathBuf, process::Command};

const SOURCE: &str = include_str!("../programs/ManycoreLight.java");
/// The runtime and the compiler.
pub(super) const PROGRAMS: [&str; 2] = ["java", "javac"];
const PACKAGE: &str = "default-jdk-headless";

pub(super) struct Jvm {
    java: PathBuf,
    folder: PathBuf,
}

pub(super) fn find(cache: &ProgramCache) -> Result<Jvm> {
    let [java, javac] = PROGRAMS;
    let java = installed(java, Runtime::Jvm, PACKAGE)?;
    let javac = installed(javac, Runtime::Jvm, PACKAGE)?;
    let key = version(Command::new(&javac).arg("-version"))?;
    let folder = cache.get("jvm", SOURCE, &key, |folder| {
        let source = folder.join("ManycoreLight.java");
        fs::write(&source, SOURCE).map_err(Error::unavailable)?;
        compile(Command::new(&javac).arg("-d").arg(folder).arg(&source))
    })?;
    Ok(Jvm { java, folder })
}

impl RuntimeProgram for Jvm {
    fn command(&self, _: u64) -> Command {
        let mut command = Command::new(&self.java);
        // Native Memory Tracking, which costs 16 bytes per block; and no performance data file that other
        // users could read.
        command.args(["-XX:NativeMemoryTracking=summary", "-XX:-UsePerfData", "-cp"]).arg(&self.folder);
        // By default, warnings go to standard output, into the midst of the protocol.
        command.args(["-Xlog:disable", "-Xlog:all=warning:stderr", "ManycoreLight"]);
        command
    }

    fn option(&self, schedulers: usize) -> String {
        format!("-XX:ActiveProcessorCount={schedulers}")
    }
}
