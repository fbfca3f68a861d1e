//! How a program is started in the emulator: what the one that we are in was started with, remembered when it began.

use manycore_shadow::{
    elf,
    escape::{self, SET_ID},
    program::{MOST_INTERPRETERS, START_BYTES, Script},
};
use std::{
    env,
    ffi::{CStr, CString, OsStr, OsString, c_char},
    fs::{self, File},
    io::Read,
    os::unix::{ffi::OsStrExt, ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The variable that tells a program how it was started: emulator, plugin, region, library, with `;` between.
const VARIABLE: &str = "MANYCORE_EMULATOR";

#[derive(Debug)]
struct Known {
    whole: OsString,
    emulator: CString,
    plugin: OsString,
    plugin_file: OsString,
    region: OsString,
    library: OsString,
}

impl Known {
    /// Whether the emulator and our files are where they were.
    fn is_in_reach(&self) -> bool {
        let ours = [&self.plugin_file, &self.region, &self.library];
        Path::new(OsStr::from_bytes(self.emulator.to_bytes())).is_file()
            && ours.into_iter().all(|path| escape::reach(Path::new(path)).is_ok())
    }

    /// The words that have the emulator run `program` with `words`, its own name first, and with variable `preload`.
    fn command(
        &self,
        program: Vec<u8>,
        preload: Option<Vec<u8>>,
        mut words: impl Iterator<Item = Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        let mut command =
            vec![self.emulator.as_bytes().to_vec(), b"-plugin".to_vec(), self.plugin.as_bytes().to_vec()];
        command.extend(words.next().into_iter().flat_map(|name| [b"-0".to_vec(), name]));
        command.extend(preload.into_iter().flat_map(|variable| [b"-E".to_vec(), variable]));
        command.push(program);
        command.extend(words);
        command
    }
}

static KNOWN: OnceLock<Option<Known>> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    KNOWN.get_or_init(know);
}

fn know() -> Option<Known> {
    let whole = env::var_os(VARIABLE)?;
    let text = whole.to_str()?;
    let mut words = text.split(';');
    let (emulator, plugin, region, library) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some(Known {
        emulator: CString::new(emulator).ok()?,
        plugin: OsString::from(format!("{plugin},region={region}")),
        plugin_file: OsString::from(plugin),
        region: OsString::from(region),
        library: OsString::from(library),
        whole: whole.clone(),
    })
}

/// A command line, of the emulator where that can be.
#[derive(Debug)]
pub struct Rewritten {
    file: CString,
    words: Vec<CString>,
    variables: Vec<CString>,
}

impl Rewritten {
    /// The file that is to be executed.
    pub fn path(&self) -> *const c_char {
        self.file.as_ptr()
    }

    /// Its arguments and its environment, each ended by null; valid as long as this is.
    pub fn lists(&self) -> (Vec<*const c_char>, Vec<*const c_char>) {
        let list = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        (list(&self.words), list(&self.variables))
    }
}

/// The command line that runs program `path` in the emulator, or without our library, which it could not load, where
/// the emulator is out of its reach; `None` where it has to run as it is.
///
/// # Safety
/// `path` is a text, the others are lists of texts that end with null.
pub unsafe fn rewrite(
    path: *const c_char,
    words: *const *const c_char,
    variables: *const *const c_char,
) -> Option<Rewritten> {
    let known = KNOWN.get_or_init(know).as_ref()?;
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: as above.
    let (words, variables) = unsafe { (texts(words), texts(variables)) };
    let mut path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
    if path == Path::new("/proc/self/exe") {
        path = fs::read_link(path).ok()?;
    }
    let (path, words, is_dynamic) = resolve(path, words.into_iter().map(OsString::from_vec).collect())?;
    let (preload, mut kept): (Vec<_>, Vec<_>) =
        variables.into_iter().partition(|variable| variable.starts_with(b"LD_PRELOAD="));
    kept.retain(|variable| !variable.starts_with(format!("{VARIABLE}=").as_bytes()));
    kept.push([VARIABLE.as_bytes(), b"=", known.whole.as_bytes()].concat());
    let theirs = preload.first().map(|variable| variable["LD_PRELOAD=".len()..].to_vec()).unwrap_or_default();
    let is_observed = known.is_in_reach();
    let value = preloads(known.library.as_bytes(), &theirs, is_dynamic && is_observed);
    let preload = (!value.is_empty()).then(|| [b"LD_PRELOAD=".to_vec(), value].concat());
    let path = path.into_os_string().into_vec();
    let words = words.into_iter().map(OsString::into_vec);
    let (file, words): (_, Vec<_>) = if is_observed {
        (known.emulator.clone(), known.command(path, preload, words))
    } else {
        kept.extend(preload);
        (CString::new(path).ok()?, words.collect())
    };
    let texts = |texts: Vec<Vec<u8>>| texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().ok();
    Some(Rewritten { file, words: texts(words)?, variables: texts(kept)? })
}

/// What the program is to load first: our library, and what else was asked for.
fn preloads(ours: &[u8], theirs: &[u8], is_dynamic: bool) -> Vec<u8> {
    let separator = |byte: &u8| matches!(byte, b':' | b' ');
    let others = theirs.split(separator).filter(|word| !word.is_empty() && *word != ours);
    let all = is_dynamic.then_some(ours).into_iter().chain(others);
    all.collect::<Vec<_>>().join(&b':')
}

/// # Safety
/// `list` is null, or a list of texts that ends with null.
unsafe fn texts(list: *const *const c_char) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    if list.is_null() {
        return texts;
    }
    // SAFETY: the caller says so.
    unsafe {
        while !(*list.add(texts.len())).is_null() {
            texts.push(CStr::from_ptr(*list.add(texts.len())).to_bytes().to_vec());
        }
    }
    texts
}

/// The file that the emulator has to run, with its arguments and whether it loads GNU's libraries. Scripts become
/// their interpreters. `None` for what the kernel has to run, or to refuse.
fn resolve(mut path: PathBuf, mut words: Vec<OsString>) -> Option<(PathBuf, Vec<OsString>, bool)> {
    for _ in 0..=MOST_INTERPRETERS {
        let mut start = Vec::new();
        let file = File::open(&path).ok()?;
        let status = file.metadata().ok()?;
        if !status.is_file() || status.mode() & 0o111 == 0 || status.mode() & SET_ID != 0 {
            return None;
        }
        file.take(START_BYTES).read_to_end(&mut start).ok()?;
        let Some(script) = Script::of(&start) else {
            return elf::kind(&start, status.len()).ok().map(|dynamic| (path, words, dynamic));
        };
        let interpreter = script.interpreter.clone();
        words = script.words(path, words);
        path = interpreter;
    }
    None
}
