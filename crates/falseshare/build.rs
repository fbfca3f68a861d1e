//! Compiles the parts that run in the emulator: the plugin, and the library for the observed programs.
//!
//! Both are built with plain rustc, always optimized, because cargo has no stable way for one crate to build
//! a shared library that another crate embeds.

use flate2::{Compression, write::ZlibEncoder};
use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let own = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    for folder in ["src/shadow", "plugin", "preload"] {
        println!("cargo::rerun-if-changed={}", own.join(folder).display());
    }
    let out = PathBuf::from(var("OUT_DIR"));
    let Some(target) = target() else {
        // The error is reported when the plugin is needed.
        for name in ["plugin", "preload"] {
            write(&out.join(format!("{name}.so.zlib")), b"");
        }
        return;
    };
    for name in ["plugin", "preload"] {
        rustc(&own.join(name).join("main.rs"), name, &target, &out);
        let made = out.join(format!("lib{name}.so"));
        let library =
            std::fs::read(&made).unwrap_or_else(|error| fail(&format!("{}: {error}", made.display())));
        write(&out.join(format!("{name}.so.zlib")), &compressed(&library));
    }
}

/// Compresses a library to half of its size: the program contains it.
fn compressed(library: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(library)
        .and_then(|()| encoder.finish())
        .unwrap_or_else(|error| fail(&error.to_string()))
}

/// Returns the target with the C library of QEMU and the observed programs. A static build for musl uses the
/// target for GNU of the same architecture, if its libraries are installed.
fn target() -> Option<String> {
    let target = var("TARGET");
    if target.ends_with("-linux-gnu") {
        return Some(target);
    }
    let gnu = target.strip_suffix("-linux-musl").map(|system| format!("{system}-linux-gnu"))?;
    (gnu == var("HOST") || has_libraries(&gnu)).then_some(gnu)
}

/// Whether the libraries of a target are installed.
fn has_libraries(target: &str) -> bool {
    let output = Command::new(var("RUSTC")).args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| {
        output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

fn rustc(source: &Path, name: &str, target: &str, out: &Path) {
    let mut command = Command::new(var("RUSTC"));
    command.args(["--edition", "2024", "--crate-name", name, "--crate-type", "cdylib", "--target", target]);
    command.args(["-C", "opt-level=3", "-C", "panic=abort", "--cap-lints", "allow"]);
    command.args(["-C", "lto", "-C", "codegen-units=1", "-C", "strip=symbols"]);
    // The embedded libraries are the same wherever they are built.
    command.arg("--remap-path-prefix").arg(format!("{}=falseshare", var("CARGO_MANIFEST_DIR")));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={linker}"));
    }
    command.arg(source).arg("--out-dir").arg(out);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?} ended with {status}")),
        Err(error) => fail(&format!("{command:?}: {error}")),
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

fn write(path: &Path, contents: &[u8]) {
    if let Err(error) = std::fs::write(path, contents) {
        fail(&format!("{}: {error}", path.display()));
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}
