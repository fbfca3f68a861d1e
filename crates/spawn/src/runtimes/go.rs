//! Go.

use crate::{
    cache::ProgramCache,
    error::{Error, Result},
    runtimes::{RuntimeProgram, compile, installed, version},
};
use manycore_experiment::spawning::Runtime;
use std::{fs, path::PathBuf, process::Command};

const SOURCE: &str = include_str!("../programs/manycore_light.go");

/// The compiler.
pub(super) const PROGRAMS: [&str; 1] = ["go"];

pub(super) struct Go(PathBuf);

pub(super) fn find(cache: &ProgramCache) -> Result<Go> {
    let [go] = PROGRAMS;
    let go = installed(go, Runtime::Go, "golang-go")?;
    // Uses the installed compiler and nothing from the network, whatever the user's settings are.
    let local = |command: &mut Command| {
        command.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GO111MODULE", "off")]);
        command.envs([("CGO_ENABLED", "0"), ("GOFLAGS", ""), ("GOWORK", "off"), ("GOTELEMETRY", "off")]);
    };
    let mut print_version = Command::new(&go);
    local(&mut print_version);
    let key = version(print_version.arg("version"))?;
    let folder = cache.get("go", SOURCE, &key, |folder| {
        let source = folder.join("manycore_light.go");
        fs::write(&source, SOURCE).map_err(Error::unavailable)?;
        // A separate build cache: HOME may be unset, or belong to another user (sudo, su).
        let parts = folder.join("parts");
        let mut build = Command::new(&go);
        local(&mut build);
        // The language version of the oldest Go in a supported distribution (1.19, Debian 12), whichever Go
        // is installed.
        build.env("GOCACHE", &parts).args(["build", "-trimpath", "-gcflags=-lang=go1.19", "-o"]);
        build.arg(folder.join("light"));
        compile(build.arg(&source))?;
        fs::remove_dir_all(parts).map_err(Error::unavailable)
    })?;
    Ok(Go(folder.join("light")))
}

impl RuntimeProgram for Go {
    fn command(&self, _: u64) -> Command {
        Command::new(&self.0)
    }

    fn option(&self, schedulers: usize) -> String {
        format!("GOMAXPROCS={schedulers}")
    }
}
