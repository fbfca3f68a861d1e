//! The scheduler: shows it, and schedules over clusters of cores.
