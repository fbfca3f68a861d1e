//! Serves this machine, or an invented one, until it is killed.
//!
//!   cargo run --release -p manycore-top --example serve -- [ADDRESS:PORT] [--token FILE] [--per-cpu]
//!       [--invented CPUS] [--name NAME=PID]...
//!
//! The address is printed on standard output. An invented machine has processes with hostile names.
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

mod invented;

use manycore_top::{
    GroupParts, Picture, Sample, Sampler, SamplerOptions, Wanted,
    findings::Watch,
    serve::{Access, NamedUnit, ServeOptions, Server, Token},
};
use manycore_topology::{SysTree, read};
use std::{
    collections::BTreeSet,
    io::Write,
    net::TcpListener,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Interval between samples.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Arguments {
    address: Option<String>,
    invented: Option<u32>,
    named: Vec<NamedUnit>,
    options: ServeOptions,
}

fn arguments() -> Arguments {
    let mut parsed = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--invented" => parsed.invented = Some(words.next().unwrap().parse().unwrap()),
            "--token" => {
                parsed.options.access =
                    Access::Token(Token::read(Path::new(&words.next().unwrap())).unwrap());
            }
            "--per-cpu" => parsed.options.per_cpu = true,
            "--name" => {
                let pair = words.next().unwrap();
                let (name, pid) = pair.split_once('=').unwrap();
                let processes = BTreeSet::from([pid.parse().unwrap()]);
                parsed.named.push(NamedUnit { name: name.to_owned(), processes, group: None });
            }
            _ => parsed.address = Some(word),
        }
    }
    parsed
}

fn main() {
    let Arguments { address, invented, mut named, mut options } = arguments();
    let machine = match invented {
        Some(cpus) => invented::machine(cpus),
        None => read(&SysTree::open(Path::new("/")).unwrap()).unwrap(),
    };
    named.extend(invented.map(|_| invented::named()));
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).unwrap();
    options.host = format!("example, {} CPUs", machine.online.len());
    let mut server = Server::start(listener, options).unwrap();
    println!("{}", server.address());
    std::io::stdout().flush().unwrap();
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    sampler.want(Wanted { interrupts: true, nodes: true, groups: GroupParts::All, ..Wanted::default() });
    let mut pair = [Sample::default(), Sample::default()];
    let mut watch = Watch::new(&machine, Duration::from_secs(3));
    let began = Instant::now();
    for round in 1.. {
        pair.swap(0, 1);
        match invented {
            Some(_) => pair[1] = invented::sample(&machine, INTERVAL * round),
            None => sampler.sample(&mut pair[1]).unwrap(),
        }
        if let Some(picture) = Picture::new(&machine, &pair[0], &pair[1]).filter(|_| round > 1) {
            // The page shows the first ones.
            let mut findings: Vec<_> = invented.map(|_| invented::finding()).into_iter().collect();
            findings.extend(watch.update(&picture));
            server.publish(&picture, &pair[1], &named, &findings);
        }
        thread::sleep((INTERVAL * round).saturating_sub(began.elapsed()));
    }
}
