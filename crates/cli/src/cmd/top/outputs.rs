//! What gets each picture beside the screen: the server, and the recording.

use super::work::{self, TargetTasks};
use crate::{
    cli::Top,
    failure::{Failure, Outcome},
    output,
};
use manycore_text::units::{bytes, counted};
use manycore_top::{
    GroupParts, GuestSearch, Picture, Recorder, RecordingHead, Sample, Wanted,
    findings::Finding,
    serve::{Access, Error, ServeOptions, Server, Token},
    snapshot::Part,
    view::RecorderState,
};
use manycore_topology::Machine;
use std::{
    io::{self, ErrorKind},
    mem::take,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The outputs that are wanted.
pub(super) struct Outputs {
    server: Option<Server>,
    recording: Option<Recording>,
    /// Why the recording ended early.
    failure: Option<Failure>,
    /// Whether the user has been warned of that.
    is_warned: bool,
}

/// A recording, and what it has beside CPUs, tasks, nodes and virtual machines.
struct Recording {
    path: PathBuf,
    recorder: Recorder,
    has_groups: bool,
    has_interrupts: bool,
    has_bandwidth: bool,
}

impl Outputs {
    /// Opens them.
    ///
    /// # Errors
    /// The address cannot be listened on; a token is missing or invalid; the file of the recording exists or cannot be
    /// created.
    pub fn open(args: &Top, machine: &Machine) -> Outcome<Self> {
        let server = args.serve.serve.as_deref().map(|address| serve(args, machine, address)).transpose()?;
        let recording =
            args.record.as_deref().map(|path| Recording::begin(args, machine, path)).transpose()?;
        Ok(Self { server, recording, failure: None, is_warned: false })
    }

    /// Returns what samples must have.
    pub fn wanted(&self) -> Wanted {
        let recorded = |part: fn(&Recording) -> bool| self.recording.as_ref().is_some_and(part);
        let is_served = self.server.is_some();
        Wanted {
            nodes: is_served || self.recording.is_some(),
            interrupts: is_served || recorded(|recording| recording.has_interrupts),
            groups: if is_served || recorded(|recording| recording.has_groups) {
                GroupParts::All
            } else {
                GroupParts::None
            },
            guests: if self.recording.is_some() { GuestSearch::Seldom } else { GuestSearch::Never },
            bandwidth: is_served || recorded(|recording| recording.has_bandwidth),
            ..Wanted::default()
        }
    }

    /// Returns whether the recording has failed, and nothing is served.
    pub fn have_failed(&self) -> bool {
        self.failure.is_some() && self.server.is_none()
    }

    /// Returns whether the samples are recorded.
    pub fn recorder(&self) -> RecorderState {
        match (&self.failure, &self.recording) {
            (Some(failure), _) => RecorderState::Failed(failure.message().to_owned()),
            (None, Some(_)) => RecorderState::Recording,
            (None, None) => RecorderState::Off,
        }
    }

    /// Returns why the recording has failed, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let failure = self.failure.as_ref().filter(|_| !self.is_warned)?;
        self.is_warned = true;
        Some(failure.message().to_owned())
    }

    /// Gives them the first sample.
    pub fn begin(&mut self, sample: &mut Sample) {
        self.record(sample);
    }

    /// Gives them a picture of all tasks, and the sample at its end. A recording that cannot be written ends here: what was
    /// written is readable, and [`Self::finish`] reports the reason.
    pub fn put(
        &mut self,
        picture: &Picture,
        sample: &mut Sample,
        tasks: &[TargetTasks],
        findings: &[Finding],
    ) {
        if let Some(server) = &mut self.server {
            server.publish(picture, sample, &work::named(tasks, picture), findings);
        }
        self.record(sample);
    }

    fn record(&mut self, sample: &mut Sample) {
        if let Some(Err(failure)) = self.recording.as_mut().map(|recording| recording.append(sample)) {
            (self.recording, self.failure) = (None, Some(failure));
        }
    }

    /// Completes the recording.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Outcome {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let Some(Recording { path, recorder, .. }) = self.recording else { return Ok(()) };
        let (samples, size) = recorder.finish().map_err(Failure::missing)?;
        let path = path.display();
        output::note(&format!(
            "Recorded {} in {path} ({}). Next: manycore top --replay {path}; manycore report {path}",
            counted(samples, "sample"),
            bytes(size),
        ));
        Ok(())
    }
}

impl Recording {
    fn begin(args: &Top, machine: &Machine, path: &Path) -> Outcome<Self> {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
        let head = RecordingHead::new(machine.clone(), now, args.interval.as_millis() as u64);
        Ok(Self {
            path: path.to_owned(),
            recorder: Recorder::create(path, &head).map_err(Failure::missing)?,
            has_groups: args.show.contains(&Part::Groups),
            has_interrupts: args.show.contains(&Part::Interrupts),
            has_bandwidth: args.show.contains(&Part::Bandwidth),
        })
    }

    /// Appends a sample, without what the screen alone wants: a day of it would be large.
    fn append(&mut self, sample: &mut Sample) -> Outcome {
        let groups = if self.has_groups { Vec::new() } else { take(&mut sample.groups) };
        let interrupts = if self.has_interrupts { Vec::new() } else { take(&mut sample.interrupts) };
        let bandwidth = if self.has_bandwidth { Vec::new() } else { take(&mut sample.bandwidth) };
        let written = self.recorder.append(sample).map_err(Failure::missing);
        if !self.has_groups {
            sample.groups = groups;
        }
        if !self.has_interrupts {
            sample.interrupts = interrupts;
        }
        if !self.has_bandwidth {
            sample.bandwidth = bandwidth;
        }
        written
    }
}

fn serve(args: &Top, machine: &Machine, address: &str) -> Outcome<Server> {
    let access = match &args.serve.token {
        Some(path) => Access::Token(Token::read(path).map_err(Failure::input)?),
        None => Access::Local,
    };
    let listener = TcpListener::bind(address)
        .map_err(|error| Failure::input(format!("cannot listen on {address:?}: {error}{}", next(&error))))?;
    let host = machine.system.hostname.clone().unwrap_or_default();
    let options = ServeOptions { access, per_cpu: args.serve.per_cpu, host: host.clone() };
    let server = Server::start(listener, options).map_err(|error| match error {
        Error::NeedsToken(_) => Failure::input(format!(
            "{error}. --token FILE reads one: (umask 077; openssl rand -hex 16 >token)"
        )),
        Error::Start(_) => Failure::missing(error),
        _ => Failure::input(error),
    })?;
    let at = reachable(server.address(), &host);
    let token = args.serve.token.as_ref().map_or_else(String::new, |path| {
        format!("   (each with ?token=TOKEN, which is in {})", path.display())
    });
    output::note(&format!("Page: http://{at}/   metrics: http://{at}/metrics{token}"));
    Ok(server)
}

/// Returns what can be done if an address is in use.
fn next(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => ". Choose another port, or see who has this one: sudo ss -ltnp",
        _ => "",
    }
}

/// Returns an address that a browser can open: `0.0.0.0` stands for all of this host.
fn reachable(address: SocketAddr, host: &str) -> String {
    if address.ip().is_unspecified() && !host.is_empty() {
        return format!("{host}:{}", address.port());
    }
    address.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_all_interfaces_is_printed_with_the_name_of_the_host() {
        let of = |address: &str| reachable(address.parse().unwrap(), "db3");
        assert_eq!(of("0.0.0.0:9733"), "db3:9733");
        assert_eq!(of("[::]:9733"), "db3:9733");
        assert_eq!(of("127.0.0.1:9733"), "127.0.0.1:9733");
    }

    #[test]
    fn a_port_in_use_has_a_next_step() {
        assert!(next(&ErrorKind::AddrInUse.into()).contains("ss -ltnp"));
        assert_eq!(next(&ErrorKind::PermissionDenied.into()), "");
    }
}
