//! Settings of the machine that differ between variants.

use crate::{Error, Result, options::DensityOptions};
use manycore_control::setting::{SettingError, SettingFiles, SettingSwitch};
use std::path::Path;

/// Begins to switch the settings of the variants, if they have any, and tries them.
///
/// # Errors
/// [`Error::Setting`]: a setting cannot be switched, or takes CPUs away, on which instances may be.
pub(crate) fn switch(options: &DensityOptions) -> Result<Option<SettingSwitch>> {
    let settings = options.variants.iter().map(|variant| variant.settings.as_slice());
    let files = SettingFiles::read(Path::new("/"), settings.clone())?;
    if files.is_empty() {
        return Ok(None);
    }
    for variant in &options.variants {
        if let Some(path) = files.changes_cpus(&variant.settings) {
            let with = "instances, whose CPUs may be among them".to_owned();
            return Err(SettingError::TakesCpus { path: path.to_owned(), with }.into());
        }
    }
    let Some(safeguard) = &options.service.safeguard else {
        return Err(Error::Limits("settings of variants need a journal and a cleanup process".to_owned()));
    };
    let request = ("density", "density: settings of the machine");
    let switch = SettingSwitch::begin(files, &safeguard.journals, request, &safeguard.cleanup)?;
    Ok(Some(switch.tried(settings)?))
}
