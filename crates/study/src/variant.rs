//! Variants as text: `place=spread@llc,env:OMP_NUM_THREADS=4`, and parameters such as `threads=1..8` that multiply
//! them.
//!
//! ```text
//! VariantText (command, items)  x  Parameter  ->  expand  ->  VariantSpec
//! ```

mod error;
mod expand;
mod items;
mod parameter;

pub use error::VariantError;
pub use expand::{Expanded, MAX_VARIANTS, expand, reference};
pub use items::{VariantText, is_key, set_item, split_items};
pub use parameter::Parameter;
