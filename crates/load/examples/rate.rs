//! Sends `GET key:{random}` to a redis server, or GET requests to an HTTP server, at a rate, and prints the latency:
//!
//! ```text
//! cargo run --release -p manycore-load --example rate -- redis 127.0.0.1:6379 10000 40 10
//! cargo run --release -p manycore-load --example rate -- /index.html 127.0.0.1:80 10000 40 10
//! ```
//!
//! The arguments are `redis` or a path, the address, requests per second (0: a closed loop), connections and seconds.

use manycore_load::{Arrivals, LoadRequest, Template, run};
use std::{error::Error, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, address, rate, connections, seconds] = words.as_slice() else {
        return Err(
            "arguments: redis or a path, the address, requests per second, connections, seconds".into()
        );
    };
    let per_second: f64 = rate.parse()?;
    let template = match what.as_str() {
        "redis" => Template::redis(&["GET", "key:{random}"], 10_000_000)?,
        path => Template::http(address, path, 1)?,
    };
    let load = run(&LoadRequest {
        address: address.parse()?,
        template,
        connections: connections.parse()?,
        pipeline: 1,
        arrivals: if per_second > 0.0 { Arrivals::Poisson { per_second } } else { Arrivals::Closed },
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs_f64(seconds.parse()?),
        seed: 1,
        polls: false,
    })?;
    let us = |q: f64| load.latency_ns(q) as f64 / 1000.0;
    println!(
        "{:.0} replies/s, {} failed, {} unanswered; latency p50 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} us; own part {:.1} % \
         (p99 {:.1} us), {:.0} % of a CPU",
        load.rate(),
        load.failed,
        load.unanswered,
        us(0.5),
        us(0.99),
        us(0.999),
        us(1.0),
        100.0 * load.own_share(),
        load.own.value_at_quantile(0.99) as f64 / 1000.0,
        100.0 * load.cpu.as_secs_f64() / (load.elapsed.as_secs_f64() + 1.0),
    );
    if let Some(why) = &load.first_failure {
        println!("first failure: {why}");
    }
    Ok(())
}
