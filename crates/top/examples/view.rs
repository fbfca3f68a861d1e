//! Shows the view of the running system, or of an invented machine, for looking at it while it is changed; and measures
//! the time from a key to the picture.
//!
//! `cargo run --release -p manycore-top --example view [FILE|NAME [TASKS]]`: a capture of a machine, or `small`, `smt`,
//! `server`, `arm`, `huge`, `giant`.
//! `cargo run --release -p manycore-top --example view time [TASKS]`: milliseconds from a key to a drawn buffer.
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

#[path = "../tests/pictures/mod.rs"]
mod pictures;
#[path = "../../cli/src/cmd/top/screen/translate.rs"]
mod translate;

use manycore_top::{
    Picture, Sample, Sampler, SamplerOptions,
    view::{ColorDepth, Theme, View, ViewCommand, ViewEvent, ViewKey, ViewOptions, ViewScreen},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use ratatui::{
    buffer::Buffer,
    crossterm::{event, execute},
    layout::Rect,
};
use std::{
    env,
    path::Path,
    time::{Duration, Instant},
};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let tasks = arguments.get(1).map_or(500, |count| count.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("time") => measure(arguments.get(1).map_or(10_000, |count| count.parse().unwrap())),
        Some(name) => show(&named(name), Source::Invented(tasks)),
        None => {
            let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
            let sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
            show(&machine, Source::Live(Box::new(sampler), Box::default()));
        }
    }
}

/// Where pictures come from.
enum Source {
    Live(Box<Sampler>, Box<[Sample; 2]>),
    Invented(usize),
}

impl Source {
    fn next(&mut self, machine: &Machine, view: &View, seed: u64) -> Option<Picture> {
        match self {
            Self::Live(sampler, both) => {
                sampler.want(view.wanted());
                both.swap(0, 1);
                sampler.sample(&mut both[1]).unwrap();
                Picture::new(machine, &both[0], &both[1]).filter(|_| both[0].at_ns > 0)
            }
            Self::Invented(tasks) => {
                let mut picture = pictures::picture(machine, *tasks, seed);
                pictures::add_resources(&mut picture, machine);
                picture.details = view.wanted().details.iter().map(|&pid| pictures::details(pid)).collect();
                picture.latency = seed.is_multiple_of(2).then(pictures::latency);
                Some(picture)
            }
        }
    }
}

fn named(name: &str) -> Machine {
    let spec = MachineSpec::default;
    match name {
        "small" => pictures::machine(&MachineSpec { cores: 8, ..spec() }),
        "smt" => pictures::machine(&MachineSpec { packages: 2, cores: 16, threads: 2, ..spec() }),
        "server" => pictures::server(2, 2),
        "arm" => pictures::machine(&MachineSpec { packages: 2, nodes: 2, clusters: 10, cores: 8, ..spec() }),
        "huge" => pictures::machine(&MachineSpec {
            packages: 2,
            nodes: 4,
            caches: 4,
            cores: 8,
            threads: 2,
            ..spec()
        }),
        "giant" => pictures::machine(&MachineSpec::giant()),
        path => read(&SysTree::open(Path::new(path)).unwrap()).unwrap(),
    }
}

fn options() -> ViewOptions {
    let is_set = |name: &str| env::var_os(name).is_some();
    let depth = if is_set("NO_COLOR") { ColorDepth::None } else { ColorDepth::Ansi256 };
    let theme = Theme { depth, is_light: is_set("LIGHT") };
    ViewOptions { theme, is_ascii: is_set("ASCII"), ..ViewOptions::default() }
}

fn show(machine: &Machine, mut source: Source) {
    let mut view = View::new(machine, options());
    let mut terminal = ratatui::init();
    execute!(std::io::stdout(), event::EnableMouseCapture).unwrap();
    let mut due = Instant::now();
    'all: for seed in 0.. {
        if let Some(picture) = source.next(machine, &view, seed) {
            view.update(picture);
        }
        due += Duration::from_millis(if seed < 2 { 200 } else { 1000 });
        loop {
            terminal
                .draw(|frame| {
                    let area = frame.area();
                    view.draw(frame.buffer_mut(), area);
                })
                .unwrap();
            if !event::poll(due.saturating_duration_since(Instant::now())).unwrap() {
                break;
            }
            if let Some(event) = translate::translate(&event::read().unwrap()) {
                view.handle(event);
            }
            if view.commands().contains(&ViewCommand::Quit) {
                break 'all;
            }
        }
    }
    execute!(std::io::stdout(), event::DisableMouseCapture).unwrap();
    ratatui::restore();
}

/// Measures the longest time from a key to the picture, with threads and as tree.
fn measure(tasks: usize) {
    let machine = named("huge");
    let mut view = View::new(&machine, options());
    let mut buffer = Buffer::empty(Rect::new(0, 0, 200, 50));
    let area = buffer.area;
    let mut picture = pictures::picture(&machine, tasks, 1);
    pictures::add_resources(&mut picture, &machine);
    let mut timed = |name: &str, act: &mut dyn FnMut(&mut View)| {
        let mut most: f64 = 0.0;
        for _ in 0..20 {
            let begin = Instant::now();
            act(&mut view);
            buffer.reset();
            view.draw(&mut buffer, area);
            most = most.max(begin.elapsed().as_secs_f64() * 1e3);
        }
        println!("{name:<28} {most:6.2} ms");
    };
    println!("{tasks} tasks, {} CPUs, longest of 20", machine.online.len());
    timed("a new picture", &mut |view| drop(view.update(picture.clone())));
    let key = |view: &mut View, key| view.handle(ViewEvent::Key(key));
    timed("threads or processes", &mut |view| key(view, ViewKey::Char('H')));
    timed("down", &mut |view| key(view, ViewKey::Down));
    timed("tree on, off", &mut |view| key(view, ViewKey::Char('t')));
    key(&mut view, ViewKey::Char('H'));
    let mut timed = |name: &str, keys: &[ViewKey]| {
        let mut most: f64 = 0.0;
        for at in 0..20 {
            let begin = Instant::now();
            view.handle(ViewEvent::Key(keys[at % keys.len()]));
            buffer.reset();
            view.draw(&mut buffer, area);
            most = most.max(begin.elapsed().as_secs_f64() * 1e3);
        }
        println!("{name:<28} {most:6.2} ms");
    };
    timed("threads: next column sorts", &[ViewKey::Char('>')]);
    timed("threads: tree", &[ViewKey::Char('t')]);
    timed(
        "threads: filter, typed",
        &[ViewKey::Char('/'), ViewKey::Char('r'), ViewKey::Char('e'), ViewKey::Esc],
    );
    timed("unit chosen", &[ViewKey::Char(']')]);
    timed("view", &[ViewKey::Tab]);
    view.show(ViewScreen::Cpus);
}
