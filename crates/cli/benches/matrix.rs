//! Compares the matrix product on one core with that of OpenBLAS, which NumPy calls.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_evaluate::python::best_kernel;
use manycore_experiment::{Error, Result, command, engine::Subject, record::Sample};
use manycore_linux::clock::now_ns;
use manycore_stats::Estimate;
use manycore_workload::{Load, LoadKind};
use std::{path::PathBuf, process::Command};

/// Prints the BLAS in use and the seconds of the products, without the first one.
const SCRIPT: &str = "
import sys, time, numpy
n, k = int(sys.argv[1]), int(sys.argv[2])
a, b = numpy.random.rand(n, n), numpy.random.rand(n, n)
a @ b
began = time.perf_counter()
for _ in range(k):
    a @ b
seconds = time.perf_counter() - began
with open('/proc/self/maps') as maps:
    print('openblas' in maps.read(), seconds)
";

struct AllPrograms {
    python: PathBuf,
    load: Box<dyn Load>,
    size: u64,
    repeats: u64,
    /// OpenBLAS with its default kernel, and with the kernel for the widest vectors of this CPU, which it may
    /// not recognise.
    kernels: Vec<Option<&'static str>>,
}

impl Subject for AllPrograms {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        let wall_ns = match self.kernels.get(treatment) {
            Some(kernel) => (self.openblas(*kernel)? * 1e9) as u64,
            None => self.ours(),
        };
        Ok(Sample { wall_ns, work: self.repeats as f64, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

impl AllPrograms {
    fn openblas(&self, kernel: Option<&str>) -> Result<f64> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT, &self.size.to_string(), &self.repeats.to_string()]);
        command.env("OPENBLAS_NUM_THREADS", "1").envs(kernel.map(|kernel| ("OPENBLAS_CORETYPE", kernel)));
        let output = command::run(&mut command)?;
        match output.stdout.trim().split_once(' ') {
            Some(("True", seconds)) => seconds.parse().map_err(|error| Error::Failed(format!("{error:?}"))),
            _ => Err(Error::unavailable("NumPy does not use OpenBLAS here")),
        }
    }

    fn ours(&mut self) -> u64 {
        self.load.tick();
        let began = now_ns();
        (0..self.repeats).for_each(|_| self.load.tick());
        now_ns() - began
    }
}

fn main() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_openblas = |python: &PathBuf| {
        let mut trial = Command::new(python);
        python.is_file()
            && command::run(trial.args(["-c", SCRIPT, "8", "1"]))
                .is_ok_and(|output| output.stdout.starts_with("True "))
    };
    let Some(python) = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(has_openblas)
    else {
        println!(
            "SKIPPED: no python3 whose NumPy uses OpenBLAS (Debian: apt install python3-numpy libopenblas0; \
             openEuler: dnf install python3-numpy openblas)"
        );
        return;
    };
    let flags = common::machine().system.cpu_flags;
    let kernels: Vec<_> = std::iter::once(None).chain(best_kernel(&flags).map(Some)).collect();
    for (size, repeats, seconds) in [(500, 40, 30.0), (1000, 8, 60.0), (2000, 2, 150.0)] {
        let mut load = LoadKind::Product.load();
        load.prepare(size);
        let mut all = AllPrograms { python: python.clone(), load, size, repeats, kernels: kernels.clone() };
        let names: Vec<&str> =
            kernels.iter().map(|kernel| kernel.unwrap_or("default kernel")).chain(["manycore"]).collect();
        let experiment = common::compare(&names, &mut all, seconds);
        for (index, name) in names.iter().enumerate().take(kernels.len()) {
            let ratios = experiment.log_ratios(index, kernels.len());
            let ratio = Estimate::from_samples(&ratios).expect("pairs").map(f64::exp);
            println!(
                "product of {size} x {size} on one core, manycore over OpenBLAS ({name}): {}",
                common::show(&ratio)
            );
        }
    }
}
