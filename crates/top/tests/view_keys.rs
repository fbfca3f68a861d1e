//! What keys and the mouse change in the view.

use crate::pictures;
use crate::shown::{buffer, key, place_of, press, screen, server, task_lines, view_of};
use manycore_top::{
    Picture, ProcessDetails, TaskId, TaskName, TaskUse, Wanted,
    view::{ShownMoment, View, ViewCommand, ViewEvent, ViewKey, ViewOptions},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, time::Duration};
use unicode_width::UnicodeWidthStr;

#[test]
fn only_what_is_shown_is_wanted() {
    let mut view = server();
    assert_eq!(view.wanted(), Wanted { counters: true, ..Wanted::default() });
    key(&mut view, ViewKey::Down);
    let text = screen(&mut view, 100, 24);
    let pid: u32 = task_lines(&text)[0].split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(view.wanted().details, [pid]);
    assert!(view.wanted().memory_of.is_empty());
    press(&mut view, "d");
    assert_eq!(view.wanted().memory_of, [pid]);
    press(&mut view, "3");
    let wanted = view.wanted();
    assert!(wanted.nodes && wanted.bandwidth && wanted.memory_of.is_empty() && wanted.details.is_empty());
    press(&mut view, "4");
    assert!(view.wanted().interrupts && !view.wanted().nodes && !view.wanted().counters);
}

#[test]
fn a_click_on_a_unit_limits_the_table_and_esc_undoes_it() {
    let mut view = server();
    let all = screen(&mut view, 140, 40);
    let (x, y) = place_of(&all, "LLC 3");
    view.handle(ViewEvent::Click(x, y));
    let limited = screen(&mut view, 140, 40);
    assert!(limited.contains("Only tasks last on LLC 3 (CPUs 24-31,88-95) (Esc: undo)"), "{limited}");
    press(&mut view, "H");
    let text = screen(&mut view, 140, 40);
    let column = place_of(&text, "  CPU ").0 as usize;
    for line in task_lines(&text).iter().filter(|line| !line.starts_with("Only")) {
        let narrow: String = line
            .chars()
            .map(|c| if c.is_ascii() { c.to_string() } else { "?".repeat(c.to_string().width()) })
            .collect();
        let cpu: u32 = narrow[column..column + 5].trim().parse().unwrap();
        assert!((24..32).contains(&cpu) || (88..96).contains(&cpu), "{line}");
    }
    press(&mut view, "H");
    key(&mut view, ViewKey::Esc);
    assert_eq!(screen(&mut view, 140, 40), all);
}

#[test]
fn a_process_of_which_some_threads_are_chosen_has_its_own_name() {
    let machine = pictures::server(2, 2);
    let mut picture = pictures::picture(&machine, 200, 7);
    let first = picture.tasks[0].clone();
    let other = TaskUse {
        id: TaskId { tid: first.id.tid + 1, ..first.id },
        name: TaskName::new(b"a-worker"),
        cpu: 31,
        ..first.clone()
    };
    picture.tasks = vec![TaskUse { cpu: 0, ..first.clone() }, other];
    let mut view = View::new(&machine, ViewOptions::default());
    view.update(picture);
    let all = screen(&mut view, 140, 40);
    let (x, y) = place_of(&all, "LLC 3");
    view.handle(ViewEvent::Click(x, y));
    let text = screen(&mut view, 140, 40);
    let lines = task_lines(&text);
    assert!(lines[0].contains(&first.name.printable()) && !text.contains("a-worker"), "{text}");
    press(&mut view, "H");
    assert!(screen(&mut view, 140, 40).contains("a-worker"));
}

#[test]
fn a_key_says_what_is_not_seen_otherwise() {
    let mut view = server();
    press(&mut view, "szzz");
    let typed = screen(&mut view, 100, 24);
    assert!(typed.contains("Search: zzz_") && typed.contains("No row has \"zzz\""), "{typed}");
    key(&mut view, ViewKey::Esc);
    assert!(!screen(&mut view, 100, 24).contains("zzz"));
    press(&mut view, "+");
    assert!(screen(&mut view, 80, 24).contains("Interval: 0.5 s"));
    press(&mut view, "m");
    assert!(!screen(&mut view, 80, 24).contains("Interval:"));
}

#[test]
fn a_view_whose_tasks_have_all_ended_says_that_there_are_none() {
    let machine = pictures::server(2, 2);
    let mut view = View::new(&machine, ViewOptions::default());
    let mut picture = pictures::picture(&machine, 20, 7);
    picture.tasks.clear();
    view.update(picture);
    assert!(screen(&mut view, 80, 24).contains("None of the chosen tasks exists at this time."));
}

#[test]
fn a_click_on_a_title_sorts_and_again_reverses() {
    let mut view = server();
    let text = screen(&mut view, 140, 40);
    let (x, y) = place_of(&text, "MEMORY");
    view.handle(ViewEvent::Click(x, y));
    let sorted = screen(&mut view, 140, 40);
    assert!(sorted.contains("MEMORY▼"), "{sorted}");
    view.handle(ViewEvent::Click(x, y));
    let reversed = screen(&mut view, 140, 40);
    assert!(reversed.contains("MEMORY▲") && task_lines(&sorted)[0] != task_lines(&reversed)[0]);
    press(&mut view, "N");
    let pids: Vec<u32> = task_lines(&screen(&mut view, 140, 40))
        .iter()
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert!(pids.is_sorted() && pids.len() > 10, "{pids:?}");
}

#[test]
fn a_filter_is_typed_kept_and_undone() {
    let mut view = server();
    let all = screen(&mut view, 100, 40);
    press(&mut view, "/Redis");
    let typed = screen(&mut view, 100, 40);
    assert!(typed.contains("Filter: Redis_"), "{typed}");
    let rows = |text: &str| task_lines(text).iter().filter(|line| !line.starts_with(['F', 'O'])).count();
    assert!(rows(&typed) > 0 && task_lines(&typed).iter().all(|line| line.to_lowercase().contains("redis")));
    key(&mut view, ViewKey::Enter);
    assert!(screen(&mut view, 100, 40).contains("Only with \"Redis\""));
    press(&mut view, "/");
    key(&mut view, ViewKey::Esc);
    assert!(screen(&mut view, 100, 40).contains("Only with \"Redis\""), "Esc ends only what is typed");
    key(&mut view, ViewKey::Esc);
    assert_eq!(screen(&mut view, 100, 40), all);
}

#[test]
fn search_selects_the_next_match() {
    let mut view = server();
    press(&mut view, "snginx");
    key(&mut view, ViewKey::Enter);
    let first = view.wanted().details;
    press(&mut view, "n");
    let second = view.wanted().details;
    assert!(first.len() == 1 && second.len() == 1 && first != second);
}

#[test]
fn the_selected_task_stays_selected_while_others_come_and_go() {
    let machine = pictures::server(2, 2);
    let mut view = view_of(&machine, ViewOptions::default());
    screen(&mut view, 100, 30);
    (0..4).for_each(|_| key(&mut view, ViewKey::Down));
    let selected = view.wanted().details;
    let mut other = pictures::picture(&machine, 200, 7);
    other.tasks.retain(|task| task.id.pid == selected[0] || task.id.pid % 2 == 0);
    other.tasks.iter_mut().filter(|task| task.id.pid != selected[0]).for_each(|task| task.run = 0.9);
    other.processes.iter_mut().for_each(|process| process.run = None);
    view.update(other);
    assert_eq!(view.wanted().details, selected);
    view.update(Picture { tasks: Vec::new(), processes: Vec::new(), ..pictures::picture(&machine, 1, 8) });
    assert!(view.wanted().details.is_empty());
    screen(&mut view, 100, 30);
}

#[test]
fn enter_shows_the_threads_of_a_process_and_the_details_its_far_memory() {
    let machine = pictures::server(2, 2);
    let mut view = view_of(&machine, ViewOptions::default());
    screen(&mut view, 140, 40);
    key(&mut view, ViewKey::Down);
    let pid = view.wanted().details[0];
    press(&mut view, "d");
    let mut picture = pictures::picture(&machine, 200, 7);
    // All of its threads ran on node 0, which has a quarter of its memory.
    picture.tasks.iter_mut().filter(|task| task.id.pid == pid).for_each(|task| task.cpu = 0);
    picture.details = vec![pictures::details(pid)];
    view.update(picture);
    let text = screen(&mut view, 140, 40);
    assert!(
        text.contains("Memory: node 0 1 GiB, node 1 3 GiB; 75 % remote to node 0, where it ran last"),
        "{text}"
    );
    assert!(
        text.contains("PSI of 10 s: CPU 1.5 % memory 1.5 %  group /system.slice/redis.service"),
        "{text}"
    );
    key(&mut view, ViewKey::Enter);
    let text = screen(&mut view, 140, 40);
    assert!(text.contains(&format!("Only threads of {pid}")) && text.contains("Processes"), "{text}");
    // Esc shows processes again.
    key(&mut view, ViewKey::Esc);
    assert!(screen(&mut view, 140, 40).contains("HThreads"));
    view.update(Picture {
        details: vec![(pid, ProcessDetails { node_kib: Some(BTreeMap::new()), ..pictures::details(pid).1 })],
        ..pictures::picture(&machine, 200, 7)
    });
    let text = screen(&mut view, 140, 40);
    assert!(text.contains("Memory by node: none (a kernel thread, or it has ended)"), "{text}");
}

#[test]
fn commands_are_for_the_caller() {
    let mut view = server();
    press(&mut view, " -+B");
    for one in [ViewKey::Left, ViewKey::Home, ViewKey::End, ViewKey::Ctrl('z')] {
        key(&mut view, one);
    }
    view.set_moment(ShownMoment { is_paused: true, behind_seconds: 31.0, ..ShownMoment::default() });
    assert!(screen(&mut view, 100, 24).starts_with(" PAUSED -31 s "));
    press(&mut view, " q");
    assert_eq!(
        view.commands(),
        [
            ViewCommand::Pause(true),
            ViewCommand::Interval(Duration::from_secs(2)),
            ViewCommand::Interval(Duration::from_secs(1)),
            ViewCommand::Step(-10),
            ViewCommand::Step(-1),
            ViewCommand::First,
            ViewCommand::Last,
            ViewCommand::Suspend,
            ViewCommand::Pause(false),
            ViewCommand::Quit,
        ]
    );
    assert!(view.commands().is_empty());
}

#[test]
fn a_tree_has_all_rows_once_with_children_below_parents() {
    let mut view = server();
    let rows = |text: &str| -> Vec<u32> {
        let lines = task_lines(text);
        let mut pids: Vec<u32> =
            lines.iter().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        pids.sort_unstable();
        pids
    };
    press(&mut view, "2");
    let list = rows(&screen(&mut view, 100, 90));
    press(&mut view, "t");
    let tree = screen(&mut view, 100, 90);
    assert_eq!(rows(&tree), list);
    assert!(tree.contains("├─") && tree.contains("└─"), "{tree}");
}

fn any_event() -> impl Strategy<Value = ViewEvent> {
    let keys = prop_oneof![
        any::<char>().prop_map(ViewKey::Char),
        "[1-8a-zA-Z/<>?+\\-\\[\\] ]".prop_map(|text| ViewKey::Char(text.chars().next().unwrap_or('x'))),
        proptest::sample::select(vec![
            ViewKey::Enter,
            ViewKey::Esc,
            ViewKey::Backspace,
            ViewKey::Tab,
            ViewKey::BackTab,
            ViewKey::Up,
            ViewKey::Down,
            ViewKey::Home,
            ViewKey::End,
            ViewKey::PageUp,
            ViewKey::PageDown,
            ViewKey::F(5),
        ]),
    ];
    prop_oneof![
        4 => keys.prop_map(ViewEvent::Key),
        1 => (0..420_u16, 0..120_u16).prop_map(|(x, y)| ViewEvent::Click(x, y)),
        1 => (0..420_u16, 0..120_u16, any::<bool>()).prop_map(|(x, y, up)| ViewEvent::Wheel(x, y, up)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_events_at_any_size_are_survived(
        steps in proptest::collection::vec((any_event(), 0..410_u16, 0..110_u16), 1..60),
        is_ascii in any::<bool>(),
    ) {
        let machine = pictures::server(2, 1);
        let mut view = view_of(&machine, ViewOptions { is_ascii, ..ViewOptions::default() });
        for (at, (event, width, height)) in steps.into_iter().enumerate() {
            view.handle(event);
            if at % 7 == 3 {
                view.update(pictures::picture(&machine, at * 5, at as u64));
            }
            let buffer = buffer(&mut view, width, height);
            let no_control = |cell: &ratatui::buffer::Cell| !cell.symbol().chars().any(char::is_control);
            prop_assert!(buffer.content.iter().all(no_control));
        }
    }
}
