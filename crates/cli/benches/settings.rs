//! What it costs to switch five settings of this machine and to check them after a run. It needs root.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_control::{
    cleanup::{Program, SUBCOMMAND},
    setting::{Setting, SettingFiles, SettingSwitch},
};
use std::{path::Path, time::Instant};

/// Switches to one variant and back.
const ROUNDS: usize = 1000;

/// Values that differ from those that Linux starts with.
const SETTINGS: [&str; 5] = [
    "set:vm.swappiness=59",
    "set:vm.dirty_ratio=21",
    "set:vm.dirty_background_ratio=11",
    "set:vm.vfs_cache_pressure=99",
    "set:kernel.randomize_va_space=1",
];

fn main() {
    let settings: Vec<Setting> = SETTINGS.iter().map(|text| text.parse().expect("a setting")).collect();
    let files = SettingFiles::read(Path::new("/"), [settings.as_slice()]).expect("the files of the settings");
    let program = Program { path: env!("CARGO_BIN_EXE_manycore").into(), arguments: vec![SUBCOMMAND.into()] };
    let journals = tempfile::tempdir().expect("a directory");
    let mut switch = SettingSwitch::begin(files, journals.path(), ("bench", "settings"), &program)
        .expect("a right to write them: run it as root");
    let mut milliseconds = Vec::new();
    for _ in 0..ROUNDS {
        for variant in [settings.as_slice(), &[]] {
            let began = Instant::now();
            switch.apply(variant).expect("they are switched");
            switch.check().expect("they stay");
            milliseconds.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    assert_eq!(switch.restore(), Vec::<String>::new());
    milliseconds.sort_by(f64::total_cmp);
    let at = |share: f64| milliseconds[(milliseconds.len() as f64 * share) as usize];
    println!(
        "switching and checking five settings: median {:.3} ms, 99 % of runs below {:.3} ms, at most {:.3} ms",
        at(0.5),
        at(0.99),
        at(0.999_9),
    );
}
