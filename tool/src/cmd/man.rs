//! `manycore man`: the man pages, from the definition of the command line.

use crate::{
    cli::{Cli, Man},
    failure::{Failure, Outcome},
    output,
};
use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;
use std::{fs, path::Path};

/// Writes `manycore.1` and a page for each verb.
pub fn run(args: &Man) -> Outcome {
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::missing(format!("cannot make {}: {error}", args.out.display())))?;
    let mut command = Cli::command();
    command.build();
    write(&command, "manycore", &args.out)?;
    command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .try_for_each(|verb| write(verb, &format!("manycore-{}", verb.get_name()), &args.out))
}

fn write(command: &Command, name: &str, folder: &Path) -> Outcome {
    // The page's name is the file's; what the user types stays in the synopsis.
    let page = Page::new(command.clone().display_name(name.to_owned())).title(name.to_uppercase());
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| Failure::missing(format!("cannot render {name}: {error}")))?;
    output::write_file(&folder.join(format!("{name}.1")), &text)
}
