//! The failures of `density`.

use super::Failure;
use manycore_density::Error;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Template(_) | Error::Limits(_) | Error::Load(manycore_load::Error::Request(_)) => {
                Self::input(error)
            }
            Error::Memory(ref shortage) if shortage.most == 0 => {
                Self::input(format!("{error}: give a smaller --memory-limit"))
            }
            Error::Memory(_) => Self::input(format!("{error}: give a smaller --max, or --memory-limit")),
            Error::PortInUse { .. } => Self::input(format!("{error}: choose others with --ports")),
            Error::UnreachableAddress { .. } => Self::input(format!(
                "{error}: give an address of this machine that the host reaches, such as --address 192.0.2.1"
            )),
            Error::Remote(manycore_remote::Error::Lost { .. }) => Self::Measured(error.to_string()),
            Error::Control(cause) => cause.into(),
            Error::Setting(cause) => cause.into(),
            Error::Tuning { index, source } => tuning(index, source),
            Error::GeneratorVersion { .. }
            | Error::Remote(_)
            | Error::System { .. }
            | Error::Resources(_) => Self::missing(error),
            error if error.is_missing() => Self::missing(error),
            Error::Interrupted => Self::Interrupted(error.to_string()),
            error => Self::Measured(error.to_string()),
        }
    }
}

impl From<manycore_load::Error> for Failure {
    fn from(error: manycore_load::Error) -> Self {
        Error::Load(error).into()
    }
}

/// Returns the failure of the feature with which an instance was tuned.
fn tuning(index: usize, source: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    source
        .downcast::<manycore_qos::Error>()
        .map(|error| (*error).into())
        .or_else(|source| source.downcast::<manycore_vm::Error>().map(|error| (*error).into()))
        .unwrap_or_else(|source| Failure::Measured(Error::Tuning { index, source }.to_string()))
}
