//! Compiles the BPF programs.

#[path = "../bpf/compile.rs"]
mod compile;

fn main() {
    compile::programs(&["choice", "scheduler"], "sched");
}
