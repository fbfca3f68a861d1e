//! `manycore man`: writes the man pages, generated from the command line's definition.

use crate::{
    cli::{Cli, Man, help},
    failure::{Failure, Outcome},
    output,
};
use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;
use std::{fs, io, path::Path};

/// Writes `manycore.1` and a page for each subcommand. Nested subcommands are described on the page of their parent.
pub fn run(args: &Man) -> Outcome {
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::missing(format!("cannot create {}: {error}", args.out.display())))?;
    let mut command = help::for_man_page(Cli::command());
    command.build();
    write(&command, "manycore", &args.out)?;
    subcommands(&command).try_for_each(|subcommand| {
        write(subcommand, &format!("manycore-{}", subcommand.get_name()), &args.out)
    })
}

/// Returns the visible subcommands of `command`.
fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
}

fn write(command: &Command, name: &str, folder: &Path) -> Outcome {
    // The page is named like its file; the synopsis keeps what the user types.
    let page = Page::new(command.clone().display_name(name.to_owned())).title(name.to_uppercase());
    let mut text = Vec::new();
    let is_verb_with_verbs = name != command.get_name() && command.has_subcommands();
    let rendered =
        if is_verb_with_verbs { with_verbs(command, &page, &mut text) } else { page.render(&mut text) };
    rendered.map_err(|error| Failure::missing(format!("cannot render {name}: {error}")))?;
    let text = unfilled(&String::from_utf8_lossy(&text));
    output::write_file(&folder.join(format!("{name}.1")), text.as_bytes())
}

/// Marks the examples and sample files of a page so that their lines are not filled (`.nf`, man(7)).
fn unfilled(page: &str) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for line in page.lines() {
        let is_heading = line.starts_with(".SH") || line.starts_with(".SS");
        if is_heading && std::mem::take(&mut is_open) {
            text += ".fi\n";
        }
        text += line;
        text.push('\n');
        if is_heading && line.ends_with("EXTRA") {
            is_open = true;
            text += ".nf\n";
        }
    }
    text
}

/// Renders a page with a section for each nested subcommand: nested subcommands have no pages of their own.
fn with_verbs(command: &Command, page: &Page, text: &mut Vec<u8>) -> io::Result<()> {
    page.render_title(text)?;
    page.render_name_section(text)?;
    page.render_synopsis_section(text)?;
    page.render_description_section(text)?;
    if command.get_arguments().any(|argument| argument.get_id() != "help") {
        page.render_options_section(text)?;
    }
    for subcommand in subcommands(command) {
        let part = Page::new(subcommand.clone());
        let mut sections = Vec::new();
        part.render_synopsis_section(&mut sections)?;
        part.render_description_section(&mut sections)?;
        part.render_options_section(&mut sections)?;
        part.render_extra_section(&mut sections)?;
        let title = format!("{} {}", command.get_name(), subcommand.get_name()).to_uppercase();
        let sections = String::from_utf8_lossy(&sections).replace(".SH ", ".SS ");
        text.extend_from_slice(format!(".SH \"{title}\"\n{sections}").as_bytes());
    }
    page.render_extra_section(text)
}
