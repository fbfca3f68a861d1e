//! Cache and memory-bandwidth control: the `resctrl` file system (`Documentation/filesystems/resctrl.rst`; openEuler's
//! kernels have their own dialects of it, see [`manycore_model::qos::dialect`]).

mod find;
mod monitors;
mod ours;
mod places;
pub mod put;
mod read;
mod sampler;
mod write;

pub use find::{DEFAULT, Missing, Mount, find, vendor};
pub use monitors::Watch;
pub use ours::ours;
pub use places::places;
pub use read::Files;
pub use sampler::Sampler;
pub use write::{Refused, Writer, mount};
