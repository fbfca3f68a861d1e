//! The verb `manycore guard why`.

use crate::{
    cli::{Format, GuardWhy},
    failure::{Failure, Outcome},
    output,
    signals::{ENDS, Signals},
};
use manycore_guard::decision::{holdings::Ledger, line::Why};
use manycore_guard::holdings::Scanner;
use manycore_guard::{
    beam::Node,
    clerk,
    event::{Event, Fact, What},
    groups::Groups,
    question,
    rules::Rules,
    text,
    watcher::{Means, Plan, QUEUE, Watcher},
};
use manycore_linux::tasks;
use rustix::event::{EventfdFlags, eventfd};
use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::{Duration, Instant},
};

/// Time between the two scans if no guard runs.
const BETWEEN: Duration = Duration::from_secs(2);

/// Prints what would happen to a process.
///
/// # Errors
/// [`Failure::Input`] if there is no process with this id.
pub fn run(args: &GuardWhy) -> Outcome {
    if tasks::process_of(args.pid) != Some(args.pid) {
        return Err(Failure::input(format!("there is no process {}", args.pid)));
    }
    let answers = match question::ask(args.pid)? {
        Some((answers, is_dry)) => {
            if is_dry {
                output::note("manycore: the guard that answers is a dry run: it ends no process");
            }
            answers
        }
        None => look(args)?,
    };
    let text = match args.format {
        Format::Json => output::json(&answers)?,
        Format::Text => answers.iter().map(text::why).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text)?;
    if !args.beam {
        return Ok(());
    }
    let node = Node::of(args.pid).map_err(Failure::input)?;
    let heaviest = node.heaviest().map_err(Failure::missing)?;
    let text = match args.format {
        Format::Json => output::json(&heaviest)?,
        Format::Text => format!("{}\n", text::node(node.name(), &heaviest)),
    };
    output::print(&text)
}

/// Scans twice, as a guard that has just started would.
fn look(args: &GuardWhy) -> Outcome<Vec<Why>> {
    let rules = Rules::read(args.config.as_deref(), &args.cgroup)?;
    output::note("manycore: no guard runs here, so growth is observed for 2 s");
    let (plan, _) = Plan::open(&rules).map_err(Failure::missing)?;
    let (events_in, events) = sync_channel(QUEUE);
    let (facts_in, facts) = sync_channel(QUEUE);
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(Failure::missing)?;
    let means = Means { plan: Box::new(plan), is_dry: true, events: events_in, facts, wake, manager: None };
    let mut watcher = Watcher::new(means).map_err(Failure::missing)?;
    let mut groups = Groups::new().map_err(Failure::missing)?;
    let signals = Signals::catch(&ENDS)?;
    let (mut scanner, mut ledger) = (Scanner::new().map_err(Failure::missing)?, Ledger::default());
    let began = Instant::now();
    watcher.tick();
    clerk::look_at_holdings(&mut scanner, &mut ledger, true);
    identify(&events, &facts_in, &mut groups, &rules);
    while began.elapsed() < BETWEEN {
        signals.wait(BETWEEN.saturating_sub(began.elapsed()))?;
        if !signals.take().is_empty() {
            return Err(Failure::Interrupted("interrupted".to_owned()));
        }
    }
    clerk::look_at_holdings(&mut scanner, &mut ledger, false);
    let _ = facts_in.try_send(Fact::Holdings(ledger.held()));
    if let Some(start) = tasks::start_time(args.pid)
        && let Some(found) = groups.identify(args.pid, start, &rules)
    {
        let _ = facts_in.try_send(found.fact(args.pid, start));
    }
    let _ = facts_in.try_send(Fact::Why(args.pid));
    watcher.take_facts();
    let answered = events.try_iter().filter_map(|event| match event.what {
        What::Answer(answer) => {
            Some(clerk::why(&mut groups, &rules, args.pid, &event, &answer, began.elapsed()))
        }
        _ => None,
    });
    Ok(answered.collect())
}

/// Answers the monitor's requests for control groups.
fn identify(events: &Receiver<Event>, facts: &SyncSender<Fact>, groups: &mut Groups, rules: &Rules) {
    for event in events.try_iter() {
        let What::Identify { pid, start } = event.what else { continue };
        if let Some(found) = groups.identify(pid, start, rules) {
            let _ = facts.try_send(found.fact(pid, start));
        }
    }
}
