//! Pictures for other programs: metrics for Prometheus, and a web page that follows the machine.
//!
//! | path | what it is |
//! |---|---|
//! | `/` | the page |
//! | `/events` | pictures as JSON, by server-sent events; what the page shows |
//! | `/metrics` | counters and gauges in the `OpenMetrics` format or the older text format |
//!
//! [`Server::publish`] adds what happened between two samples to totals, and never waits for a client: answers are made in
//! the thread of the server, from a copy. Pictures are made only while a page is open.
//!
//! # Metrics
//!
//! Counters do not decrease while the server runs, also when CPUs or tasks vanish. CPU time by CPU begins with that since
//! boot; what is derived from tasks begins with 0, and lacks what a task did after the last sample before its end.
//!
//! Series have the labels `level`, `unit` (the number of the unit in its level) and `cpus`. The levels are `machine`,
//! `node`, `llc` and `cluster`, and `cpu` on request: a query selects one of them, because each holds the same time.
//! Processes have no series. What the user has named has: families that begin with `manycore_named_`, and a bound of
//! [`MOST_NAMED`] names.

mod exposition;
mod feed;
mod histogram;
mod metrics;
mod named;
mod node_metrics;
mod published;
mod site;
mod totals;

use crate::{Picture, Sample, findings::Finding};
pub use manycore_http::{Access, Error, Token};
pub use named::{MOST_NAMED, NamedUnit};
use published::Published;
use site::TopSite;
use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};
use totals::Totals;

/// What is served, and to whom.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Who may read.
    pub access: Access,
    /// Whether each CPU has series of its own.
    pub per_cpu: bool,
    /// The machine's name on the page.
    pub host: String,
}

/// A server of pictures and metrics. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    http: manycore_http::Server,
    site: Arc<TopSite>,
    totals: Totals,
    per_cpu: bool,
    host: String,
}

impl Server {
    /// Serves from now on. Until the first picture the metrics are not available.
    ///
    /// # Errors
    /// [`Error::NeedsToken`] if other hosts can reach the address and there is no token; [`Error::Start`].
    pub fn start(listener: TcpListener, options: ServeOptions) -> Result<Self, Error> {
        let site = Arc::new(TopSite::default());
        let http = manycore_http::Server::start(
            listener,
            "serve",
            options.access,
            Arc::<TopSite>::clone(&site) as _,
        )?;
        Ok(Self { http, site, totals: Totals::default(), per_cpu: options.per_cpu, host: options.host })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Publishes what happened up to `sample`, which is the second sample of `picture`. The picture has all tasks:
    /// totals of units would be too small otherwise.
    pub fn publish(&mut self, picture: &Picture, sample: &Sample, named: &[NamedUnit], findings: &[Finding]) {
        self.totals.add(picture, sample, named);
        self.site.put(Arc::new(Published::new(&self.totals, picture, named, findings, self.per_cpu)));
        if self.site.has_viewers() {
            self.site.show(&feed::json(picture, named, findings, &self.host));
        } else {
            self.site.forget();
        }
    }
}
