//! What findings mean for a check of a program.

use super::{CommandEnd, Engine, Findings, Settings};

/// False-sharing transfers from which on a line is reported, by default, where every access was observed.
const EMULATION_THRESHOLD: u64 = 50;

/// The same for sampling, where each sample stands for thousands of accesses.
const SAMPLING_THRESHOLD: u64 = 5;

/// Whether a program shares falsely, and why that is unknown if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// This number of cases of false sharing was found.
    Found(usize),
    /// None was found, and the program was observed to its end or to the timeout.
    Absent,
    /// None was found, but this number of accesses was not followed.
    Unfollowed(u64),
    /// None was found, but this number of processes ran unobserved.
    Unobserved(usize),
    /// None was found in code with a name, but this number of cases may belong to the program.
    PossiblyOwn(usize),
    /// None was found before the program failed or was interrupted.
    EndedEarly(CommandEnd),
}

impl Settings {
    /// Returns the default settings for observations of an engine.
    pub fn of_engine(engine: &Engine) -> Self {
        let threshold = match engine {
            Engine::Emulator { .. } => EMULATION_THRESHOLD,
            Engine::Sampling { .. } => SAMPLING_THRESHOLD,
        };
        Self { threshold }
    }
}

impl Findings {
    /// Returns what the findings mean. What was found takes precedence over how the program ended. With
    /// `latent`, latent findings count. With `any_end`, it does not matter how the program ended, as for an
    /// observation that was saved.
    pub fn conclusion(&self, latent: bool, any_end: bool) -> Conclusion {
        let found = self.false_sharing.len() + if latent { self.latent.len() } else { 0 };
        let ended_well = any_end || matches!(self.end, CommandEnd::Status(0) | CommandEnd::Timeout);
        if found > 0 {
            Conclusion::Found(found)
        } else if self.unfollowed_accesses > 0 {
            Conclusion::Unfollowed(self.unfollowed_accesses)
        } else if !ended_well {
            Conclusion::EndedEarly(self.end)
        } else if self.unobserved_processes > 0 {
            Conclusion::Unobserved(self.unobserved_processes)
        } else if self.possibly_own > 0 {
            Conclusion::PossiblyOwn(self.possibly_own)
        } else {
            Conclusion::Absent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_end_hides_what_is_unknown_about_other_processes() {
        let findings =
            |end| Findings { end, unobserved_processes: 2, possibly_own: 1, ..Findings::default() };
        let conclusion = |end, any_end| findings(end).conclusion(false, any_end);
        assert_eq!(conclusion(CommandEnd::Status(0), false), Conclusion::Unobserved(2));
        assert_eq!(conclusion(CommandEnd::Timeout, false), Conclusion::Unobserved(2));
        let failed = CommandEnd::Status(3);
        assert_eq!(conclusion(failed, false), Conclusion::EndedEarly(failed));
        assert_eq!(conclusion(failed, true), Conclusion::Unobserved(2));
        let unfollowed = Findings { unfollowed_accesses: 7, ..findings(failed) };
        assert_eq!(unfollowed.conclusion(false, false), Conclusion::Unfollowed(7));
    }
}
