// The build scripts of crates with BPF programs include this file as a module: compiles the programs with clang. Without
// it, or with one that is too old, a crate is built without them, and says at run time what is missing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The kernel's verifier refuses what older versions of clang compile.
const OLDEST: u32 = 17;

/// Compiles each `bpf/NAME.bpf.c` to `NAME.bpf.o`, which is empty without clang or the feature `bpf`, and writes what was
/// missing, or nothing, to the file `missing`. `feature` is that feature as the binary calls it.
pub fn programs(names: &[&str], feature: &str) {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../bpf/include");
    println!("cargo::rerun-if-changed=../bpf/compile.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(var("OUT_DIR"));
    let clang = if env::var_os("CARGO_FEATURE_BPF").is_some() {
        clang()
    } else {
        Err(format!("the feature {feature}"))
    };
    let missing = match &clang {
        Ok(clang) => {
            for name in names {
                compile(clang, name, &out);
            }
            String::new()
        }
        Err(missing) => {
            for name in names {
                write(&out.join(format!("{name}.bpf.o")), "");
            }
            missing.clone()
        }
    };
    write(&out.join("missing"), &missing);
}

/// Returns a compiler that is new enough, or what was found instead.
fn clang() -> Result<String, String> {
    let named = env::var("CLANG").ok();
    let versions = (OLDEST..40).rev().map(|version| format!("clang-{version}"));
    let candidates = named
        .clone()
        .into_iter()
        .chain(["clang".to_owned()].into_iter().chain(versions).filter(|_| named.is_none()));
    let mut found = String::new();
    for name in candidates {
        let Some(version) = version(&name) else { continue };
        if version >= OLDEST {
            return Ok(name);
        }
        found = format!(", {name} is version {version}");
    }
    Err(format!("clang {OLDEST} or newer{found}"))
}

/// Returns the major version of a clang that knows the target.
fn version(clang: &str) -> Option<u32> {
    let run = Command::new(clang).args(["--print-targets"]).output().ok()?;
    if !String::from_utf8_lossy(&run.stdout).contains("bpfel") {
        return None;
    }
    let run = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8_lossy(&run.stdout).split('.').next()?.trim().parse().ok()
}

fn compile(clang: &str, name: &str, out: &Path) {
    let target = if var("CARGO_CFG_TARGET_ENDIAN") == "big" { "bpfeb" } else { "bpfel" };
    let object = out.join(format!("{name}.bpf.o"));
    // No path of the build machine in the object.
    let folder = var("CARGO_MANIFEST_DIR");
    let status = Command::new(clang)
        .args([
            "-g",
            "-O2",
            "-mcpu=v3",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-target",
            target,
        ])
        .args(["-fdebug-compilation-dir=.", "-I../bpf/include", "-c"])
        .arg(format!("bpf/{name}.bpf.c"))
        .arg("-o")
        .arg(&object)
        .current_dir(folder)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{clang} could not compile bpf/{name}.bpf.c: {status}")),
        Err(error) => fail(&format!("{clang}: {error}")),
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("{name} is not set: build with cargo")))
}

fn write(path: &Path, text: &str) {
    if let Err(error) = fs::write(path, text) {
        fail(&format!("{}: {error}", path.display()));
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}
