//! Compiles the BPF programs.

#[path = "../bpf/compile.rs"]
mod compile;

fn main() {
    compile::programs(&["latency", "trace"], "latency");
}
