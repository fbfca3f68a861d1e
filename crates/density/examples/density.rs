//! Measures how many instances of a service fit before the p99 of the first one gets 10 % worse:
//!
//! ```text
//! cargo run --release -p manycore-density --example density -- redis 200/s 16 redis-server --port {port} --save ''
//! cargo run --release -p manycore-density --example density -- / 60% 16 python3 -m http.server --bind {address} {port}
//! ```
//!
//! The arguments are `redis` or a path, the rate of each instance, the largest count, and the command of an instance.

use manycore_control::cleanup;
use manycore_density::{
    bound::Bound,
    instances::{Safeguard, ServiceSpec},
    session::{DensityEvent, DensityObserver, DensityRequest, Rate, measure},
    template::CommandTemplate,
};
use manycore_load::Template;
use std::{error::Error, net::Ipv4Addr, time::Duration};

struct Lines;

impl DensityObserver for Lines {
    fn event(&mut self, event: &DensityEvent<'_>) -> bool {
        match event {
            DensityEvent::Rate { per_second, capacity } => {
                println!("{per_second:.0} requests/s for each instance; capacity of one: {capacity:.0?}");
            }
            DensityEvent::Pair { alone, all, search } => {
                let us = |ns: u64| ns / 1000;
                let density = search.density();
                println!(
                    "{:3} instances: p99 {} us, alone {} us (generator's own part: {:.0} %); so far {} to {:?}",
                    all.count,
                    us(all.observed.latency_ns(0.99)),
                    us(alone.observed.latency_ns(0.99)),
                    100.0 * all.observed.own_share(),
                    density.low,
                    density.high
                );
            }
            DensityEvent::Failed { count, why } => println!("{count:3} instances failed: {why}"),
        }
        true
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == [cleanup::SUBCOMMAND] {
        cleanup::run(std::io::stdin().lock(), &|_| {});
        return Ok(());
    }
    let [what, rate, most, command @ ..] = words.as_slice() else {
        return Err("arguments: redis or a path, the rate, the largest count, the command".into());
    };
    let template = match what.as_str() {
        "redis" => Template::redis(&["GET", "key:{random}"], 10_000_000)?,
        path => Template::http("localhost", path, 1)?,
    };
    let rate = match rate.strip_suffix('%') {
        Some(percent) => Rate::ShareOfCapacity(percent.parse::<f64>()? / 100.0),
        None => Rate::PerSecond(rate.trim_end_matches("/s").parse()?),
    };
    let command = CommandTemplate::new(command.to_vec())?;
    let request = DensityRequest {
        service: ServiceSpec {
            safeguard: Some(Safeguard::own()),
            ..ServiceSpec::new(command, Ipv4Addr::LOCALHOST.into(), 7100)
        },
        template,
        connections: 8,
        rate,
        bound: Bound::default(),
        most: most.parse()?,
        samples: 60,
        slice: Duration::from_secs(2),
        settle: Duration::from_millis(300),
        seed: 1,
    };
    println!("up to {:.0?}", request.longest());
    let result = measure(&request, &mut Lines)?;
    let density = result.density;
    println!(
        "{:?} ({} to {:?}) after {} pairs",
        density.estimate,
        density.low,
        density.high,
        result.search.samples()
    );
    Ok(())
}
