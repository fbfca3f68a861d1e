//! The same measurement on many hosts, and which of them are slow.
//!
//! [`collect`] runs manycore on hosts, and [`folder`] keeps what they send. [`reading`] reduces each record to what is
//! compared, [`evaluate()`] compares them, and [`render`] shows the resulting [`evaluation`].
//! [`changes()`] compares dated evaluations.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod causes;
mod changes;
pub mod collect;
mod decide;
mod drift;
mod error;
mod evaluate;
pub mod evaluation;
mod figures;
pub mod folder;
pub mod hostlist;
mod judge;
mod kinds;
pub mod merge;
pub mod properties;
pub mod reading;
mod reference;
pub mod render;
mod robust;
mod sections;
mod segments;
mod signs;
pub mod simulate;

pub use changes::{DatedRun, LEAST_RUNS, changes, lasting_keys};
pub use error::{Error, Result};
pub use evaluate::{Options, evaluate, judge_against};
pub use figures::{MeasuredFigure, NodeRecord};
pub use kinds::check_keys;
pub use properties::DEFAULT_KEYS;
pub use reference::LEAST_NODES;
pub use signs::Signs;
