//! What distinguishes the processes of this measurement from all others, so that they can be ended if it is killed.

use crate::error::Result;
use manycore_control::cleanup::{Cleanup, Leftover, Program};
use manycore_linux::clock;

/// A variable in the environment of all processes that a measurement starts.
#[derive(Clone, Debug)]
pub(crate) struct RunMark(String);

impl RunMark {
    /// The name of the variable.
    pub const NAME: &str = "MANYCORE_MEASUREMENT";

    /// Returns the mark of this measurement, and the process that kills whatever has it if this process is killed.
    ///
    /// # Errors
    /// The cleanup process cannot be started.
    pub fn begin() -> Result<(Self, Cleanup)> {
        let mark = Self(format!("{}-{}", std::process::id(), clock::now_ns()));
        let mut cleanup = Cleanup::start(&Program::own())?;
        cleanup.add(Leftover::Marked(format!("{}={}", Self::NAME, mark.0).into()))?;
        Ok((mark, cleanup))
    }

    /// The value of the variable.
    pub fn value(&self) -> &str {
        &self.0
    }
}
