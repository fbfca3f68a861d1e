//! `manycore qos set`.

use crate::{
    cli::{Format, QosSet},
    failure::{Failure, Outcome},
    output::{self, note_event},
    signals::{self, Signals},
};
use manycore_qos::{
    Error,
    changes::LimitChanges,
    set::{self, AppliedLimits, Options},
    text,
};
use manycore_render::terminal::Terminal;
use std::time::Duration;

/// Polling interval. The kernel does not report which tasks enter a control group.
const PERIOD: Duration = Duration::from_millis(200);

/// Limits a target, or shows what would be written.
///
/// # Errors
/// [`Failure::Input`] for an invalid target, group or value; [`Failure::Missing`] if the machine lacks the
/// control or the user the permission; [`Failure::Check`] if the kernel silently kept an old limit. Only in
/// the last case do changes remain.
pub fn run(args: &QosSet, terminal: Terminal) -> Outcome {
    let options = options(args);
    if args.dry_run {
        return print(args.format, terminal, &set::plan(&options, &mut note_event)?.preview());
    }
    // Before anything is changed, so that a signal cannot leave a part of it.
    let signals = Signals::catch(&signals::ENDS)?;
    let applied =
        set::plan(&options, &mut note_event)?.apply(&|| !signals.take().is_empty(), &mut note_event)?;
    let printed = print(args.format, terminal, &applied.changes);
    if args.follow {
        let followed = match printed {
            Err(Failure::ReaderGone) => {
                Err(Failure::missing("standard output was closed; all changes were undone"))
            }
            printed => printed.and_then(|()| follow(&applied, &signals)),
        };
        return applied.undo(&mut note_event).map_err(Failure::from).and(followed);
    }
    printed?;
    check(&applied.changes)
}

fn options(args: &QosSet) -> Options {
    Options {
        target: args.target.limit_target(),
        description: args.target.words(),
        limits: args.limits.request(),
        name: args.name.clone(),
        follow: args.follow,
        mount: args.mount && !args.dry_run,
        resctrl: args.resctrl.resctrl.clone(),
    }
}

/// Keeps all tasks of the target in the group until a signal arrives or the target ends.
fn follow(applied: &AppliedLimits, signals: &Signals) -> Outcome {
    output::note(&format!(
        "manycore: new tasks of the target are moved into the group {} until Ctrl-C or the end of the target",
        applied.group()
    ));
    while applied.target_exists() {
        applied.move_new_tasks().map_err(Error::undone)?;
        signals.wait(PERIOD)?;
        if !signals.take().is_empty() {
            break;
        }
    }
    Ok(())
}

fn print(format: Format, terminal: Terminal, changes: &LimitChanges) -> Outcome {
    output::result(format, terminal, changes, || text::changes(changes))
}

fn check(changes: &LimitChanges) -> Outcome {
    match changes.ignored().count() {
        0 => Ok(()),
        count => Err(Failure::Check(format!(
            "the kernel silently ignored {count} of {} limits and kept the old values; 'manycore undo {}' restores the \
             previous state",
            changes.limits.len(),
            changes.journal.as_deref().unwrap_or_default()
        ))),
    }
}
