//! `manycore qos`: limits of memory bandwidth and cache for groups of tasks.

mod clear;
mod prove;
mod set;
mod show;
mod watch;

use crate::{
    cli::{Qos, QosVerb},
    failure::Outcome,
};

/// Shows, sets, measures or clears limits, or watches the usage of groups.
pub fn run(args: &Qos) -> Outcome {
    match &args.verb {
        QosVerb::Show(args) => show::run(args),
        QosVerb::Set(args) => set::run(args),
        QosVerb::Watch(args) => watch::run(args),
        QosVerb::Prove(args) => prove::run(args),
        QosVerb::Clear(args) => clear::run(args),
    }
}
