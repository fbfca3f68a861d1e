//! What code and data addresses of a process are called, from the files that it had mapped.
//!
//! Lines come from DWARF, in the file itself or in its separate debug file; where there is none, functions come
//! from the symbol tables, and where those are stripped, a place is the file and an offset in it.

mod file;

use file::ObjectFile;
use manycore_model::sharing::{Code, Frame, Global, Line, Module, Names, Observation, Place, Process};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Looks up the names of all code and data of shared lines, and keeps them in the observation. A file that cannot
/// be read, or that is no longer there, leaves its addresses as offsets.
pub fn resolve(seen: &mut Observation) {
    let mut files = BTreeMap::new();
    for process in &mut seen.processes {
        process.names = Lookup { process, files: &mut files, biases: BTreeMap::new() }.names();
    }
}

/// The files of a process.
struct Lookup<'a> {
    process: &'a Process,
    /// By path; none where one cannot be read.
    files: &'a mut BTreeMap<String, Option<ObjectFile>>,
    /// What each path's addresses in this process are ahead of those in the file.
    biases: BTreeMap<&'a str, u64>,
}

impl<'a> Lookup<'a> {
    /// A mapped file, and its bias in this process.
    fn get(&mut self, module: &'a Module) -> Option<(&ObjectFile, u64)> {
        let path = module.path.as_str();
        let file = self.files.entry(path.to_owned()).or_insert_with(|| ObjectFile::open(Path::new(path)));
        let file = file.as_ref()?;
        let bias = *self.biases.entry(path).or_insert_with(|| {
            let parts: Vec<&Module> =
                self.process.modules.iter().filter(|other| other.path == path).collect();
            file.bias(&parts)
        });
        Some((file, bias))
    }

    fn names(&mut self) -> Names {
        let mut addresses = BTreeSet::new();
        let mut globals = BTreeMap::new();
        for line in &self.process.lines {
            addresses.extend(line.accesses.iter().map(|access| access.code));
            if let Place::Heap { blocks } = &line.place {
                // A call returns behind itself: the byte before belongs to it.
                addresses
                    .extend(blocks.iter().flat_map(|block| &block.callers).map(|at| at.saturating_sub(1)));
            }
            for global in self.globals(line) {
                globals.entry(global.start).or_insert(global);
            }
        }
        let code = addresses.into_iter().map(|address| self.code(address)).collect();
        Names { code, globals: globals.into_values().collect() }
    }

    fn code(&mut self, address: u64) -> Code {
        let holds = |module: &&Module| (module.start..module.end).contains(&address);
        let Some(module) = self.process.modules.iter().find(holds) else {
            let frame = Frame { function: format!("{address:#x}"), ..Frame::default() };
            return Code { address, module: String::new(), frames: vec![frame] };
        };
        let found = self.get(module).map(|(file, bias)| file.frames(address.wrapping_sub(bias)));
        let frames =
            found.filter(|frames| !frames.is_empty()).unwrap_or_else(|| vec![offset(module, address)]);
        Code { address, module: module.path.clone(), frames }
    }

    /// The variables that hold the shared bytes of a line.
    fn globals(&mut self, line: &Line) -> Vec<Global> {
        let Place::Module { module } = line.place else { return Vec::new() };
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

/// `libfoo.so+0x11f0`, counted from the start of the file.
fn offset(module: &Module, address: u64) -> Frame {
    let name = module.path.rsplit('/').next().unwrap_or(&module.path);
    let offset = (address - module.start).saturating_add(module.file_offset);
    Frame { function: format!("{name}+{offset:#x}"), ..Frame::default() }
}
