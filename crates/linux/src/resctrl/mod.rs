//! Cache and memory-bandwidth control: the `resctrl` file system (`Documentation/filesystems/resctrl.rst`; openEuler's
//! kernels have their own dialects of it, see [`crate::resctrl::dialect`]).

pub mod dialect;
pub mod domains;
mod find;
pub mod monitors;
mod places;
pub mod put;
pub mod rates;
pub mod read;
mod sampler;
pub mod schemata;
pub mod state;
pub mod watch;

pub use find::{DEFAULT, Missing, Mount, find, vendor};
pub use monitors::Watch;
pub use places::places;
pub use read::Files;
pub use sampler::Sampler;
