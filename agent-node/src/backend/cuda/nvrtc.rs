//! NVRTC, loaded by full path at run time; every failure is an error and never a panic.
//!
//! The library has no run path: it opens its builtins by soname. They are loaded first, by full path, so that the
//! soname is found and no search path matters. Loaded only in the compiling child, never in the node.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, NulError, c_char, c_int};
use std::path::{Path, PathBuf};

/// Major versions whose interface is known here.
pub(super) const MAJORS: std::ops::RangeInclusive<i32> = 12..=13;
/// Bytes of a log; a template error can fill many screens.
const LOG_MAX: usize = 4 << 20;
/// Bytes of a cubin.
pub(super) const CUBIN_MAX: usize = 256 << 20;
/// Architectures that one library names; 13.5 names thirteen.
const ARCHITECTURES_MAX: usize = 256;

/// `nvrtcResult` in nvrtc.h.
type Code = c_int;
const SUCCESS: Code = 0;
const COMPILATION: Code = 6;
const INVALID_OPTION: Code = 5;
const NAME_EXPRESSION_NOT_VALID: Code = 10;
const NO_LOWERED_NAMES: Code = 9;

type Program = *mut std::ffi::c_void;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code;
type Count = unsafe extern "C" fn(*mut c_int) -> Code;
type ErrorText = unsafe extern "C" fn(Code) -> *const c_char;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Code;
type Destroy = unsafe extern "C" fn(*mut Program) -> Code;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code;
type Size = unsafe extern "C" fn(Program, *mut usize) -> Code;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> Code;
type AddName = unsafe extern "C" fn(Program, *const c_char) -> Code;
type LoweredName = unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> Code;

/// What keeps a source from becoming a cubin.
#[derive(Debug, thiserror::Error)]
pub(super) enum NvrtcError {
    #[error("{path} cannot be loaded: {source}")]
    Load { path: PathBuf, source: libloading::Error },
    #[error("{path} lacks the function {name}: {source}")]
    Symbol { path: PathBuf, name: &'static str, source: libloading::Error },
    #[error("{path} is version {major}.{minor}; {first} to {last} are known here", first = MAJORS.start(), last = MAJORS.end())]
    Version { path: PathBuf, major: i32, minor: i32 },
    #[error("a NUL byte in {0}")]
    Nul(&'static str, #[source] NulError),
    #[error("{call}: {text} ({code})")]
    Call { call: &'static str, code: i32, text: String },
    #[error("{what} of {size} bytes; at most {limit} are taken")]
    Size { what: &'static str, size: usize, limit: usize },
}

/// How a compilation ended.
#[derive(Debug)]
pub(super) enum Compiled {
    Cubin {
        cubin: Vec<u8>,
        log: String,
        /// Symbols of the asked names, in their order.
        symbols: Vec<String>,
    },
    /// The source is at fault.
    Refused { log: String },
    /// An option is not known to this version, usually the architecture.
    Option { log: String },
}

/// One loaded NVRTC.
#[derive(Debug)]
pub(super) struct Nvrtc {
    path: PathBuf,
    library: Library,
    _builtins: Option<Library>,
    /// Major and minor version.
    pub(super) version: (i32, i32),
}

impl Nvrtc {
    /// Loads `builtins`, where there are some, and then `library`, both by full path.
    pub(super) fn load(library: &Path, builtins: Option<&Path>) -> Result<Self, NvrtcError> {
        let builtins = builtins.map(open).transpose()?;
        let path = library.to_owned();
        let library = open(library)?;
        let mut nvrtc = Self { path, library, _builtins: builtins, version: (0, 0) };
        let version: Version = nvrtc.symbol("nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the signature is that of nvrtc.h and both pointers are to live integers.
        nvrtc.check("nvrtcVersion", unsafe { version(&raw mut major, &raw mut minor) })?;
        if !MAJORS.contains(&major) {
            return Err(NvrtcError::Version { path: nvrtc.path, major, minor });
        }
        nvrtc.version = (major, minor);
        Ok(nvrtc)
    }

    /// Numbers of the architectures that it compiles for, such as 90.
    pub(super) fn architectures(&self) -> Result<Vec<i32>, NvrtcError> {
        let count: Count = self.symbol("nvrtcGetNumSupportedArchs")?;
        let list: Count = self.symbol("nvrtcGetSupportedArchs")?;
        let mut length = 0;
        // SAFETY: the signature is that of nvrtc.h and the pointer is to a live integer.
        self.check("nvrtcGetNumSupportedArchs", unsafe { count(&raw mut length) })?;
        let size = usize::try_from(length).unwrap_or(0);
        if size > ARCHITECTURES_MAX {
            return Err(NvrtcError::Size { what: "a list of architectures", size, limit: ARCHITECTURES_MAX });
        }
        let mut numbers = vec![0; size];
        // SAFETY: the library writes the number of integers that it just named.
        self.check("nvrtcGetSupportedArchs", unsafe { list(numbers.as_mut_ptr()) })?;
        Ok(numbers)
    }

    /// Compiles `source`, called `name` in messages, to a cubin; `names` are kernels whose symbols are wanted.
    pub(super) fn compile(
        &self,
        source: &str,
        name: &str,
        options: &[String],
        names: &[String],
    ) -> Result<Compiled, NvrtcError> {
        let text = |what, text: &str| CString::new(text).map_err(|error| NvrtcError::Nul(what, error));
        let (source, name) = (text("the source", source)?, text("its name", name)?);
        let names: Vec<CString> =
            names.iter().map(|name| text("a kernel's name", name)).collect::<Result<_, _>>()?;
        let program = Unit::create(self, &source, &name)?;
        let add: AddName = self.symbol("nvrtcAddNameExpression")?;
        for name in &names {
            // SAFETY: the program lives, and the library copies the text.
            self.check("nvrtcAddNameExpression", unsafe { add(program.raw, name.as_ptr()) })?;
        }
        let code = program.compile(options)?;
        let log = program.text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", LOG_MAX, "a log")?;
        // Parts of the log are texts in C, each with its NUL.
        let log = String::from_utf8_lossy(&log).replace('\0', "");
        match code {
            SUCCESS => {}
            COMPILATION | NAME_EXPRESSION_NOT_VALID => return Ok(Compiled::Refused { log }),
            INVALID_OPTION => return Ok(Compiled::Option { log }),
            other => return Err(self.failed("nvrtcCompileProgram", other, &log)),
        }
        let mut symbols = Vec::with_capacity(names.len());
        for name in &names {
            match program.lowered(name)? {
                Some(symbol) => symbols.push(symbol),
                None => {
                    let log = format!("{log}\nthe name expression {name:?} is not a kernel");
                    return Ok(Compiled::Refused { log });
                }
            }
        }
        let cubin = program.text("nvrtcGetCUBINSize", "nvrtcGetCUBIN", CUBIN_MAX, "a cubin")?;
        Ok(Compiled::Cubin { cubin, log, symbols })
    }

    /// Compiles `source` to PTX, where the options name a virtual architecture; `None` if it is refused.
    pub(super) fn ptx(
        &self,
        source: &str,
        name: &str,
        options: &[String],
    ) -> Result<Option<String>, NvrtcError> {
        let text = |what, text: &str| CString::new(text).map_err(|error| NvrtcError::Nul(what, error));
        let (source, name) = (text("the source", source)?, text("its name", name)?);
        let program = Unit::create(self, &source, &name)?;
        if program.compile(options)? != SUCCESS {
            return Ok(None);
        }
        let ptx = program.text("nvrtcGetPTXSize", "nvrtcGetPTX", CUBIN_MAX, "PTX")?;
        Ok(Some(String::from_utf8_lossy(&ptx).replace('\0', "")))
    }

    fn symbol<T: Copy>(&self, name: &'static str) -> Result<T, NvrtcError> {
        // SAFETY: every caller asks for the type that nvrtc.h gives the function of this name; the pointer is used
        // only while `self.library` lives.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        let symbol = found.map_err(|source| NvrtcError::Symbol { path: self.path.clone(), name, source })?;
        Ok(*symbol)
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), NvrtcError> {
        if code == SUCCESS { Ok(()) } else { Err(self.failed(call, code, "")) }
    }

    fn failed(&self, call: &'static str, code: Code, log: &str) -> NvrtcError {
        let text = match self.symbol::<ErrorText>("nvrtcGetErrorString") {
            // SAFETY: the library returns a pointer to a constant text of its own for every code.
            Ok(text) => unsafe { CStr::from_ptr(text(code)) }.to_string_lossy().into_owned(),
            Err(_) => "unknown".to_owned(),
        };
        NvrtcError::Call { call, code, text: format!("{text} {log}").trim().to_owned() }
    }
}

/// A program of the library, destroyed with this value.
struct Unit<'a> {
    nvrtc: &'a Nvrtc,
    raw: Program,
}

impl<'a> Unit<'a> {
    fn create(nvrtc: &'a Nvrtc, source: &CStr, name: &CStr) -> Result<Self, NvrtcError> {
        let create: Create = nvrtc.symbol("nvrtcCreateProgram")?;
        let mut raw: Program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the texts live through the call and are copied; there are no headers in memory.
        let code = unsafe { create(&raw mut raw, source.as_ptr(), name.as_ptr(), 0, none, none) };
        nvrtc.check("nvrtcCreateProgram", code)?;
        Ok(Self { nvrtc, raw })
    }

    fn compile(&self, options: &[String]) -> Result<Code, NvrtcError> {
        let text = |option: &String| {
            CString::new(option.as_str()).map_err(|error| NvrtcError::Nul("an option", error))
        };
        let options: Vec<CString> = options.iter().map(text).collect::<Result<_, _>>()?;
        let compile: Compile = self.nvrtc.symbol("nvrtcCompileProgram")?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: the program lives; `pointers` are `count` texts that outlive the call.
        Ok(unsafe { compile(self.raw, count, pointers.as_ptr()) })
    }

    /// Bytes that the library offers by a pair of functions for size and content.
    fn text(
        &self,
        size_call: &'static str,
        call: &'static str,
        limit: usize,
        what: &'static str,
    ) -> Result<Vec<u8>, NvrtcError> {
        let size_of: Size = self.nvrtc.symbol(size_call)?;
        let content: Text = self.nvrtc.symbol(call)?;
        let mut size = 0;
        // SAFETY: the program lives and the pointer is to a live integer.
        self.nvrtc.check(size_call, unsafe { size_of(self.raw, &raw mut size) })?;
        if size > limit {
            return Err(NvrtcError::Size { what, size, limit });
        }
        let mut bytes = vec![0u8; size];
        // SAFETY: the library writes exactly as many bytes as it just named.
        self.nvrtc.check(call, unsafe { content(self.raw, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    /// The symbol of a name expression; `None` if it names nothing.
    fn lowered(&self, name: &CStr) -> Result<Option<String>, NvrtcError> {
        let lowered: LoweredName = self.nvrtc.symbol("nvrtcGetLoweredName")?;
        let mut symbol = std::ptr::null();
        // SAFETY: the program lives; the library sets the pointer to a text that lives as long as the program.
        let code = unsafe { lowered(self.raw, name.as_ptr(), &raw mut symbol) };
        match code {
            NAME_EXPRESSION_NOT_VALID | NO_LOWERED_NAMES => Ok(None),
            code => {
                self.nvrtc.check("nvrtcGetLoweredName", code)?;
                // SAFETY: set by the library on success, and ended by NUL.
                Ok(Some(unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned()))
            }
        }
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        if let Ok(destroy) = self.nvrtc.symbol::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: made by `create` and destroyed once. A refusal leaks memory of a short-lived process.
            let _ = unsafe { destroy(&raw mut self.raw) };
        }
    }
}

fn open(path: &Path) -> Result<Library, NvrtcError> {
    // SAFETY: loading runs the library's initialisers. The path comes from this node's own search, and the process is a
    // confined child that does nothing else.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|source| NvrtcError::Load { path: path.to_owned(), source })
}
