//! Names of users.

use std::{collections::BTreeMap, sync::Arc};

/// Names of users by their numbers, printable.
pub type UserNames = BTreeMap<u32, Arc<str>>;

/// Returns the name of a user, or the number if there is none.
pub fn user_name(names: &UserNames, uid: u32) -> String {
    names.get(&uid).map_or_else(|| uid.to_string(), |name| (**name).to_owned())
}
