//! Looks up the names of code and data of a process, in the files that it had mapped.
//!
//! Source lines come from DWARF, in the file itself or in its separate debug file. Without DWARF, functions
//! come from the symbol tables. In stripped files, code is named by file and offset. Code that was generated
//! at run time gets the names that its runtime wrote for profilers.

mod elf_file;
mod file;
mod generated;
mod instruction;
mod runtime;
mod source_lines;

use crate::sharing::{
    Code, Frame, GENERATED, Global, MappedFile, MemoryKind, Names, Observation, Process, SharedLine,
};
use file::ObjectFile;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

/// Adds the names of all code and data of shared lines to the observation. Where a file cannot be read or no
/// longer exists, addresses are shown as offsets.
pub fn resolve(seen: &mut Observation) {
    let mut files = BTreeMap::new();
    // File timestamps may be a little older than the clock's time.
    let age = Duration::try_from_secs_f64(seen.seconds + 5.0).unwrap_or(Duration::MAX);
    for process in &mut seen.processes {
        process.names = Lookup { process, files: &mut files, biases: BTreeMap::new() }.names(age);
    }
}

/// The mapped files of a process.
struct Lookup<'a> {
    process: &'a Process,
    /// Files by path; `None` for a file that cannot be read.
    files: &'a mut BTreeMap<String, Option<ObjectFile>>,
    /// The load bias of each file in this process, by path.
    biases: BTreeMap<&'a str, u64>,
}

impl<'a> Lookup<'a> {
    /// Returns a mapped file and its load bias in this process.
    fn get(&mut self, module: &'a MappedFile) -> Option<(&ObjectFile, u64)> {
        let path = module.path.as_str();
        let file = self.files.entry(path.to_owned()).or_insert_with(|| ObjectFile::open(Path::new(path)));
        let file = file.as_ref()?;
        let bias = *self.biases.entry(path).or_insert_with(|| {
            let parts: Vec<&MappedFile> =
                self.process.modules.iter().filter(|other| other.path == path).collect();
            file.bias(&parts)
        });
        Some((file, bias))
    }

    fn names(&mut self, age: Duration) -> Names {
        let mut addresses = BTreeSet::new();
        let mut globals = BTreeMap::new();
        for line in &self.process.lines {
            addresses.extend(line.accesses.iter().map(|access| access.code));
            if let MemoryKind::Heap { blocks } = &line.memory {
                // A return address is that of the instruction after the call; the byte before it belongs to the call.
                addresses
                    .extend(blocks.iter().flat_map(|block| &block.callers).map(|at| at.saturating_sub(1)));
            }
            for global in self.globals(line) {
                globals.entry(global.start).or_insert(global);
            }
        }
        let mut code: Vec<Code> = addresses.into_iter().map(|address| self.code(address)).collect();
        let nameless = |code: &&mut Code| code.module.is_empty();
        let addresses = code.iter_mut().filter(nameless).map(|code| code.address).collect();
        let mut generated = generated::names(self.process, &addresses, age);
        for code in code.iter_mut().filter(nameless) {
            if let Some(frame) = generated.remove(&code.address) {
                (code.module, code.frames) = (GENERATED.to_owned(), vec![frame]);
            }
        }
        Names { code, globals: globals.into_values().collect(), runtimes: self.runtimes() }
    }

    /// Returns the paths of files that are a language's interpreter or virtual machine.
    fn runtimes(&mut self) -> Vec<String> {
        let process = self.process;
        let mut found = BTreeSet::new();
        for module in &process.modules {
            if !found.contains(&module.path)
                && let Some(function) = runtime::function(&module.path)
                && self.get(module).is_some_and(|(file, _)| file.has_function(function))
            {
                found.insert(module.path.clone());
            }
        }
        found.into_iter().collect()
    }

    fn code(&mut self, address: u64) -> Code {
        let holds = |module: &&MappedFile| (module.start..module.end).contains(&address);
        // Runtimes also generate code in anonymous files.
        let process = self.process;
        let is_file =
            |module: &&MappedFile| !module.path.starts_with("/memfd:") || module.path == process.program;
        let Some(module) = process.modules.iter().filter(is_file).find(holds) else {
            let frame = Frame { function: format!("{address:#x}"), ..Frame::default() };
            return Code { address, frames: vec![frame], ..Code::default() };
        };
        let found = self.get(module).map(|(file, bias)| {
            let address = address.wrapping_sub(bias);
            (
                file.frames(address),
                file.instruction(address).is_some_and(|code| instruction::is_exchange(&code)),
            )
        });
        let (mut frames, is_exchange) = found.unwrap_or_default();
        if frames.is_empty() {
            frames.push(offset(module, address));
        }
        Code { address, module: module.path.clone(), frames, is_exchange }
    }

    /// Returns the variables that contain the shared bytes of a line.
    fn globals(&mut self, line: &SharedLine) -> Vec<Global> {
        let MemoryKind::Module { module } = line.memory else { return Vec::new() };
        let Some(module) = self.process.modules.get(module) else { return Vec::new() };
        let Some((file, bias)) = self.get(module) else { return Vec::new() };
        let first = line.accesses.iter().map(|access| u64::from(access.offset)).min();
        let last =
            line.accesses.iter().map(|access| u64::from(access.offset) + u64::from(access.bytes.max(1)));
        let at = |offset: u64| line.address.saturating_add(offset).wrapping_sub(bias);
        let variables = file.variables(at(first.unwrap_or(0)), at(last.max().unwrap_or(0)));
        variables.into_iter().map(|it| Global { start: it.start.wrapping_add(bias), ..it }).collect()
    }
}

/// Returns a name such as `libfoo.so+0x11f0`, with the offset from the start of the file.
fn offset(module: &MappedFile, address: u64) -> Frame {
    let name = module.path.rsplit('/').next().unwrap_or(&module.path);
    let offset = (address - module.start).saturating_add(module.file_offset);
    Frame { function: format!("{name}+{offset:#x}"), ..Frame::default() }
}
