//! Exit code and message of the conclusion of an observation.

use crate::{
    cli::Falseshare as Args,
    failure::{Failure, Outcome},
};
use manycore_falseshare::sharing::{CommandEnd, Conclusion, Engine, Findings};

/// Returns how the subcommand ends.
pub(super) fn outcome(findings: &Findings, args: &Args) -> Outcome {
    Err(match findings.conclusion(args.latent, args.from.is_some()) {
        Conclusion::Absent => return Ok(()),
        Conclusion::Found(1) => Failure::Check("1 case of false sharing".to_owned()),
        Conclusion::Found(several) => Failure::Check(format!("{several} cases of false sharing")),
        Conclusion::Unfollowed(accesses) => Failure::Missing(format!(
            "no false sharing among the accesses that were followed, but {accesses} accesses were not followed; the \
             report gives the reason. If the memory was used up, run again with more than --memory-limit {}",
            args.memory_limit
        )),
        Conclusion::Unobserved(processes) => Failure::Missing(format!(
            "no false sharing in the observed programs, but {processes} ran unobserved; the report gives the reason"
        )),
        Conclusion::PossiblyOwn(cases) => Failure::Missing(format!(
            "no false sharing in the program's named code, but {cases} of the cases in the report may belong to the \
             program: they are in an interpreter, or in code that was generated at run time and has no \
             name. Let the runtime write names (java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node \
             --perf-basic-prof, DOTNET_PerfMapEnabled=1), and let the program run until its methods are compiled"
        )),
        Conclusion::EndedEarly(end) => ended_early(findings, end),
    })
}

fn ended_early(findings: &Findings, end: CommandEnd) -> Failure {
    match (end, &findings.engine) {
        (CommandEnd::Status(status), _) => {
            Failure::Measured(format!("no false sharing before the program ended with status {status}"))
        }
        (CommandEnd::Signal(signal), Engine::Emulator { version }) => Failure::Measured(format!(
            "no false sharing before signal {signal} ended the program; the emulator may be the cause (to check, run: \
             {} {})",
            version.split(' ').next().unwrap_or("qemu"),
            findings.command.join(" ")
        )),
        (CommandEnd::Signal(signal), Engine::Sampling { .. }) => {
            Failure::Measured(format!("no false sharing before signal {signal} ended the program"))
        }
        (CommandEnd::Timeout | CommandEnd::Interrupted, _) => {
            Failure::Interrupted("interrupted; no false sharing was found until then".to_owned())
        }
    }
}
