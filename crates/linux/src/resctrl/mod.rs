//! Cache and memory-bandwidth control: the `resctrl` file system (`Documentation/filesystems/resctrl.rst`; openEuler's
//! kernels have their own dialects of it, see [`crate::resctrl::dialect`]).

pub mod dialect;
pub mod domain_cpus;
mod find;
pub mod monitors;
pub mod put;
pub mod rates;
pub mod read;
mod sampler;
pub mod schemata;
pub mod state;
pub mod watch;

pub use domain_cpus::domain_cpus;
pub use find::{DEFAULT, FindError, Mount, find, vendor};
pub use monitors::OpenMonitors;
pub use read::Files;
pub use sampler::Sampler;
