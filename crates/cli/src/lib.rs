//! The `manycore` program: command line, exit codes, output and signals. Everything else is in the libraries.
//!
//! | module | what it is |
//! |---|---|
//! | `cli` | the command line; help, completions and man pages are generated from it |
//! | `cmd` | one file for each subcommand: options -> library call -> print |
//! | `measuring` | what all subcommands that measure do around the measurement: folder, progress, Ctrl-C, saving, printing |
//! | `checks` | what is done with a result besides printing it: gates, stored baselines, exports |
//! | `source`, `load` | machines, plans and records that the command line names |
//! | `folder`, `results` | the directory of a run's results, and those of earlier runs |
//! | `program`, `quoted_command` | programs and commands that the command line names |
//! | `live` | subcommands that show readings at equal times until they are interrupted |
//! | `completion` | what can stand at the end of a command line, for shells |
//! | `settings` | a user's defaults: configuration file and variables |
//! | `shell` | the shell that runs measured commands, if any |
//! | `failure` | the reasons for which a run fails, and their exit codes |
//! | `schemas` | the kinds of JSON that are written, and their JSON Schemas |
//! | `terminal` | width and colours of the terminal |
//! | `output` | standard output and standard error; replaces unprintable characters for terminals |
#![forbid(unsafe_code)]

pub mod checks;
pub mod cli;
pub mod cmd;
pub mod completion;
pub mod failure;
pub mod folder;
pub mod live;
pub mod load;
pub mod loads;
pub mod measuring;
pub mod output;
pub mod placement_args;
pub mod program;
pub mod progress;
pub mod quoted_command;
pub mod results;
pub mod schemas;
pub mod settings;
pub mod sharing;
pub mod shell;
pub mod signals;
pub mod source;
pub mod study;
pub mod terminal;
