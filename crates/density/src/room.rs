//! How many instances the machine has room for: memory and ports.

use crate::{Error, Result, instances::Instances, options::DensityOptions};

/// Returns the largest count that is measured, and why it is smaller than the options say, where it may be. `variants` are
/// the instances of each variant; the first of the first one runs.
///
/// # Errors
/// [`Error::Memory`] or [`Error::PortInUse`] if the count may not be smaller, or would be too small for the bound.
pub(crate) fn most(variants: &[&Instances], options: &DensityOptions) -> Result<(usize, Vec<String>)> {
    let (mut most, mut reasons) = (options.most, Vec::new());
    let mut reduce = |to: usize, error: Error| {
        if !options.may_reduce || to < options.bound.first_count() {
            return Err(error);
        }
        if to < most {
            most = to;
            reasons.push(match error {
                Error::Memory(shortage) => shortage.to_string(),
                error => format!("{error}: at most {to} are measured (choose other ports with --ports)"),
            });
        }
        Ok(())
    };
    match variants.first().map_or(Ok(()), |first| first.check_memory(options.most * variants.len())) {
        Err(Error::Memory(mut shortage)) => {
            shortage.variants = variants.len();
            reduce(shortage.most / variants.len(), Error::Memory(shortage))?;
        }
        checked => checked?,
    }
    for instances in variants {
        match instances.check_ports(options.most) {
            Err(Error::PortInUse { index, port }) => reduce(index, Error::PortInUse { index, port })?,
            checked => checked?,
        }
    }
    Ok((most, reasons))
}
