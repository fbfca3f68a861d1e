//! Exit codes of errors of limits, and the options that avoid them.

use super::Failure;
use manycore_linux::{resctrl::FindError, targets::TargetError};
use manycore_qos::{Error, error::join, translate::RequestError, write::WriteError};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = message(&error);
        match cause(&error) {
            Error::Experiment(manycore_experiment::Error::Interrupted) | Error::Interrupted => {
                Self::Interrupted(message)
            }
            Error::Experiment(manycore_experiment::Error::Failed(_)) => Self::Measured(message),
            Error::Request(errors) if errors.iter().any(RequestError::is_unsupported) => {
                Self::Missing(message)
            }
            Error::Write(WriteError::Exists(_) | WriteError::Gone(_))
            | Error::Target(_)
            | Error::NoLimit
            | Error::Request(_)
            | Error::GroupName { .. }
            | Error::NoGroup { .. }
            | Error::MonitoringGroup { .. }
            | Error::SeveralGroups { .. }
            | Error::Rename(_)
            | Error::KeepsName { .. }
            | Error::NotFollowed(_)
            | Error::GroupExists(_)
            | Error::Cpus { .. }
            | Error::TargetEnded(_)
            | Error::NotOurs(_)
            | Error::Running { .. }
            | Error::Node(_) => Self::Input(message),
            _ => Self::Missing(message),
        }
    }
}

fn cause(error: &Error) -> &Error {
    match error {
        Error::Undone(inner) => cause(inner),
        error => error,
    }
}

/// Returns the message of an error, with the options of the command line that avoid it.
fn message(error: &Error) -> String {
    match error {
        Error::Find(FindError::NotMounted) => format!("{error} ('qos set --mount' mounts it until 'undo')"),
        Error::NoLimit => {
            "no limit is given: add one, such as --bandwidth 50% or --cache l3=25% ('manycore qos show' \
                           lists what can be set)"
                .to_owned()
        }
        Error::Request(errors) => join(errors.iter().map(request)),
        Error::GroupName { name, why } => format!("--name {name:?}: {why}"),
        Error::SeveralGroups { .. } => format!("{error} with --group"),
        Error::Rename(_) => format!("--name: {error}; leave --name out"),
        Error::KeepsName { name, .. } => {
            format!("--name {name}: {error}; leave --name out, or undo that change first (manycore undo)")
        }
        Error::NotFollowed(_) => format!("--follow: {error}: leave --follow out"),
        Error::GroupExists(name) => {
            format!("{error}: change its limits with --group {name}, or choose another --name")
        }
        Error::NoGroupLeft { .. } => format!("{error}, or change an existing one with --group"),
        Error::Cpus { requested, .. } => format!("--cpus {requested}: {error}"),
        Error::Target(TargetError::Several { how: "its control group", .. }) => {
            format!("{error} (--cgroup)")
        }
        Error::Node(node) => format!("--node {node}: {error}"),
        Error::Write(WriteError::Exists(_)) => format!("{error} (--name)"),
        Error::Undone(inner) => format!("{}; all changes were undone", message(inner)),
        error => error.to_string(),
    }
}

fn request(error: &RequestError) -> String {
    match error {
        RequestError::PerNode { .. } => format!("{error}: write --on node=LIST"),
        RequestError::SharedCache { id, .. } => format!("{error}: write --on cache={id}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_options_that_avoid_them() {
        let per_node = RequestError::PerNode { line: "MB".to_owned() };
        let cpus = (0..8).collect();
        let shared = RequestError::SharedCache { kind: "L3 cache", id: 3, cpus };
        let failure = Failure::from(Error::Request(vec![per_node, shared]));
        assert!(matches!(failure, Failure::Input(_)));
        let message = failure.message();
        assert!(message.contains("--on node=LIST") && message.contains("--on cache=3"), "{message}");
        let unsupported = Error::Request(vec![RequestError::Unsupported("no such line".to_owned())]);
        assert!(matches!(Failure::from(unsupported), Failure::Missing(_)));
        let ended = Failure::from(Error::TargetEnded("--pid 8".to_owned()).undone());
        assert!(
            matches!(&ended, Failure::Input(text) if text == "--pid 8 has ended meanwhile; all changes were undone")
        );
        assert!(matches!(Failure::from(Error::Interrupted.undone()), Failure::Interrupted(_)));
        let renamed = Failure::from(Error::Rename("web".to_owned()));
        assert!(renamed.message().starts_with("--name: ") && renamed.message().ends_with("leave --name out"));
    }
}
