//! Records the scheduling events of a command for a few seconds, as a trace that <https://ui.perfetto.dev> opens.
//!
//! | step | module |
//! |---|---|
//! | events from the kernel, by BPF | `ring` |
//! | events -> intervals: who ran on each CPU, in which state each thread was; pure | `timeline` |
//! | intervals -> file in the Chrome trace event format | `chrome` |
//! | intervals -> figures, and these in words | `summary`, `text` |

mod chrome;
mod event;
mod event_log;
mod ring;
mod summary;
mod text;
mod timeline;
mod unit;

pub use chrome::write;
pub use event::{Departure, EventKind, Recording, TraceEvent, TracedTask};
pub use event_log::EventLog;
pub use ring::{Recorder, RecorderOptions};
pub use summary::{Summary, UnitSummary, WaitSummary};
pub use text::text;
pub use timeline::{CpuSlice, Mark, MarkKind, ThreadSlice, ThreadState, Timeline};
