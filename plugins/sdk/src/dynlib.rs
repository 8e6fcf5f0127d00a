//! Libraries that are opened when they are first needed instead of being linked.
//!
//! [`function_table!`](crate::function_table) declares the functions of a library. The table is filled on
//! first use. If the library is not installed, the result is an [`Error`], which an engine reports as its
//! reason to decline a graph.

pub mod answer;
mod candidate;
pub mod guard;
pub mod loaded;

use std::ffi::{OsStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

pub use self::candidate::{Candidate, Error};
use crate::fork;
use crate::os::{cancel, library};

/// An open library. What was found in it must not be used after it is dropped.
#[derive(Debug)]
pub struct Library {
    library: Opened,
    name: String,
    /// Appended to each name that is looked up.
    suffix: &'static str,
}

/// The loader's library. While it is being closed, no other thread forks.
#[derive(Debug)]
struct Opened(ManuallyDrop<library::Library>);

impl Drop for Opened {
    fn drop(&mut self) {
        let (_off, _loader) = (cancel::disable(), fork::Loader::enter());
        // SAFETY: nothing uses it after this.
        drop(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl Library {
    /// Opens a library by its path or, if the name has no slash, through the loader's search. All symbols are
    /// bound now, and none is visible to other libraries.
    ///
    /// # Errors
    /// The loader's message, or that the file is truncated.
    pub fn open(name: impl AsRef<OsStr>) -> Result<Self, Error> {
        let name = name.as_ref();
        let _off = cancel::disable();
        library::check(name).map_err(Error)?;
        let loader = fork::Loader::enter();
        // SAFETY: opening runs the library's initializers, as whoever names a library intends.
        let opened = unsafe { library::open(name) };
        drop(loader);
        loaded::look_again();
        let library = Opened(ManuallyDrop::new(opened.map_err(Error)?));
        Ok(Self { library, name: name.to_string_lossy().into_owned(), suffix: "" })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the library has a symbol of this name.
    pub fn has(&self, name: &str) -> bool {
        self.address(name).is_some()
    }

    /// The address of this symbol with the library's suffix.
    fn address(&self, name: &str) -> Option<*const ()> {
        if self.suffix.is_empty() {
            return library::address(&self.library.0, name);
        }
        library::address(&self.library.0, &format!("{name}{}", self.suffix))
    }

    /// The file that contains this function, as the loader resolved it.
    pub fn file_of(&self, function: &str) -> Option<PathBuf> {
        library::file_of(self.address(function)?.cast())
    }

    /// The function of this name, if the library has it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<fn()>(), "F is a function pointer") };
        let address = self.address(name)?;
        // SAFETY: `F` is the type of a pointer to the function of this name, and the address is not null.
        Some(unsafe { std::mem::transmute_copy::<*const (), F>(&address) })
    }

    /// The function of this name behind an entry that stops exceptions: if it throws, the entry returns
    /// [`guard::Answer`]'s value. None if the library lacks it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function, which takes `arguments` arguments of at most one word
    /// each and returns an `R`.
    pub unsafe fn guarded<F: Copy, R: guard::Answer>(&self, name: &str, arguments: usize) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<fn()>(), "F is a function pointer") };
        let entry = guard::entry(self.address(name)?, arguments, R::THREW)?;
        // SAFETY: the entry is called as the function, whose type the caller names.
        Some(unsafe { std::mem::transmute_copy::<*const (), F>(&entry) })
    }
}

/// A function of a table as declared in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function's name.
    pub name: &'static str,
    /// The types of its arguments.
    pub arguments: &'static [&'static str],
    /// The type of its result; empty if it returns nothing.
    pub result: &'static str,
    /// Whether a library that lacks it is rejected.
    pub required: bool,
}

/// The first of these libraries from which a table can be filled.
///
/// # Errors
/// What is wrong with each of them.
pub fn first<'a, T>(
    what: &str,
    candidates: &[impl Copy + Into<Candidate<'a>>],
    fill: impl Fn(Library) -> Result<T, Vec<&'static str>>,
) -> Result<T, Error> {
    // Candidates with the same reason share one entry.
    let mut reasons: Vec<(String, String)> = Vec::with_capacity(candidates.len());
    let mut add = |file: &str, reason: String| match reasons.last_mut() {
        Some((files, last)) if *last == reason => *files += &format!(", {file}"),
        _ => reasons.push((file.to_owned(), reason)),
    };
    for candidate in candidates {
        let Candidate { file, suffix } = (*candidate).into();
        let file = &*library::vendor_name(file);
        match Library::open(file) {
            Err(Error(reason)) => {
                // The loader's message begins with the file name.
                let words = reason.strip_prefix(file).and_then(|rest| rest.strip_prefix(": "));
                add(file, words.unwrap_or(&reason).to_owned());
            }
            Ok(library) => match fill(Library { suffix, ..library }) {
                Ok(table) => return Ok(table),
                Err(missing) => {
                    let missing: Vec<_> = missing.iter().map(|name| format!("{name}{suffix}")).collect();
                    add(file, format!("it lacks {}", missing.join(", ")));
                }
            },
        }
    }
    let reasons: Vec<_> = reasons.iter().map(|(files, reason)| format!("{files} ({reason})")).collect();
    Err(Error(format!("no library for {what} was found; looked for {}", reasons.join(", "))))
}

/// An object created by a library and destroyed on drop.
#[derive(Debug)]
pub struct Object {
    object: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: who makes one promises that it belongs to no thread.
unsafe impl Send for Object {}
// SAFETY: who makes one promises that threads may read it together.
unsafe impl Sync for Object {}

impl Object {
    /// Takes ownership of an object.
    ///
    /// # Safety
    /// `object` is alive, owned by this value alone and not tied to a thread, and `destroy` destroys it.
    /// Whatever modifies it during use is behind a lock.
    pub unsafe fn new(object: *mut c_void, destroy: unsafe extern "C" fn(*mut c_void) -> c_int) -> Self {
        Self { object, destroy }
    }

    /// The library's pointer.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        self.object
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: this value owns the object. Failures are ignored.
        unsafe { (self.destroy)(self.object) };
    }
}

/// Declares a struct with the functions of a library as fields, required ones as function pointers and optional ones as an
/// `Option` of one:
///
/// ```
/// hipdnn_plugin_sdk::function_table! {
///     /// Some functions of the C library's mathematics.
///     pub struct Mathematics: "mathematics", ["libm.so.6", "libm.so"] {
///         required {
///             /// The cosine of `x`.
///             fn cos(x: f64) -> f64;
///         }
///         optional {
///             /// Something that this library may lack.
///             fn cos_of_the_future(x: f64) -> f64;
///         }
///     }
/// }
///
/// let table = Mathematics::get().expect("every system has it");
/// // SAFETY: the signature is that of the C standard.
/// assert_eq!(unsafe { (table.cos)(0.0) }, 1.0);
/// assert!(table.cos_of_the_future.is_none());
/// ```
///
/// `TABLE::get()` fills the table once per process from the first library that has all required functions,
/// and keeps the result or the error. `TABLE::load_from(names)` does so anew with other libraries. Names that
/// are not in snake case need an `#[expect(non_snake_case)]` on the struct. The error states for each library
/// why it was rejected: the loader's message, or the required functions it lacks. `"libx_private.so" +
/// "_impl"` is a library whose function names end in that suffix.
///
/// A C++ exception thrown by a function ends at the call: the function returns [`guard::THREW`], and
/// [`guard::thrown`] describes it.
#[macro_export]
macro_rules! function_table {
    (@result) => { () };
    (@result $result:ty) => { $result };
    // A guard passes each argument in one word.
    (@count $($argument:ty),*) => { <[()]>::len(&[$(const { assert!(size_of::<$argument>() <= 8) }),*]) };
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident: $what:literal, [$($file:literal $(+ $suffix:literal)?),+ $(,)?] {
            required { $($(#[$rmeta:meta])* fn $required:ident($($rarg:ident: $rtype:ty),* $(,)?) $(-> $rret:ty)?;)* }
            optional { $($(#[$ometa:meta])* fn $optional:ident($($oarg:ident: $otype:ty),* $(,)?) $(-> $oret:ty)?;)* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $table {
            $($(#[$rmeta])* pub $required: unsafe extern "C" fn($($rarg: $rtype),*) $(-> $rret)?,)*
            $($(#[$ometa])* pub $optional: ::std::option::Option<unsafe extern "C" fn($($oarg: $otype),*) $(-> $oret)?>,)*
            // Last field, so that it is dropped last.
            library: $crate::dynlib::Library,
        }

        impl $table {
            /// The libraries that are tried, in this order.
            $vis const LIBRARIES: &'static [$crate::dynlib::Candidate<'static>] =
                &[$($crate::dynlib::Candidate { file: $file, suffix: concat!("", $($suffix)?) }),+];

            /// The signature of each function, for comparing them with the library's own header.
            $vis const SIGNATURES: &'static [$crate::dynlib::Signature] = &[
                $($crate::dynlib::Signature {
                    name: stringify!($required),
                    arguments: &[$(stringify!($rtype)),*],
                    result: concat!("", $(stringify!($rret))?),
                    required: true,
                },)*
                $($crate::dynlib::Signature {
                    name: stringify!($optional),
                    arguments: &[$(stringify!($otype)),*],
                    result: concat!("", $(stringify!($oret))?),
                    required: false,
                },)*
            ];

            /// The table of this process.
            ///
            /// # Errors
            /// When none of the libraries has the functions. The result is the same for the life of the
            /// process.
            $vis fn get() -> ::std::result::Result<&'static Self, $crate::dynlib::Error> {
                static TABLE: $crate::lock::OnceLock<::std::result::Result<$table, $crate::dynlib::Error>> =
                    $crate::lock::OnceLock::new();
                TABLE.get_or_init(|| Self::load_from(Self::LIBRARIES)).as_ref().map_err(Clone::clone)
            }

            /// A table from the first of these libraries that has the functions.
            ///
            /// # Errors
            /// When none of them has.
            $vis fn load_from<'a>(
                candidates: &[impl Copy + ::std::convert::Into<$crate::dynlib::Candidate<'a>>],
            ) -> ::std::result::Result<Self, $crate::dynlib::Error> {
                $crate::dynlib::first($what, candidates, |library| {
                    let missing: ::std::vec::Vec<_> = Self::SIGNATURES
                        .iter()
                        .filter(|signature| signature.required && !library.has(signature.name))
                        .map(|signature| signature.name)
                        .collect();
                    if !missing.is_empty() {
                        return ::std::result::Result::Err(missing);
                    }
                    ::std::result::Result::Ok(Self {
                        $($required: {
                            type Function = unsafe extern "C" fn($($rtype),*) $(-> $rret)?;
                            const ARGUMENTS: usize = $crate::function_table!(@count $($rtype),*);
                            let name = stringify!($required);
                            // SAFETY: the type is that of the declaration, and the table keeps the library open.
                            match unsafe { library.guarded::<Function, $crate::function_table!(@result $($rret)?)>(name, ARGUMENTS) } {
                                ::std::option::Option::Some(function) => function,
                                ::std::option::Option::None => return ::std::result::Result::Err(::std::vec![name]),
                            }
                        },)*
                        $($optional: {
                            type Function = unsafe extern "C" fn($($otype),*) $(-> $oret)?;
                            const ARGUMENTS: usize = $crate::function_table!(@count $($otype),*);
                            let name = stringify!($optional);
                            // SAFETY: the type is that of the declaration, and the table keeps the library open.
                            unsafe { library.guarded::<Function, $crate::function_table!(@result $($oret)?)>(name, ARGUMENTS) }
                        },)*
                        library,
                    })
                })
            }

            /// The library that the functions come from.
            $vis fn library(&self) -> &$crate::dynlib::Library {
                &self.library
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    function_table! {
        /// Two functions that exist and one that does not.
        struct Mathematics: "mathematics", ["libno_such_library.so.1", "libm.so.6"] {
            required {
                /// The cosine.
                fn cos(x: f64) -> f64;
                /// The larger one.
                fn fmax(x: f64, y: f64) -> f64;
            }
            optional {
                /// Does not exist.
                fn no_such_function(x: f64);
            }
        }
    }

    function_table! {
        /// A suffixed function, of a library that has it and of one that does not.
        struct Suffixed: "single precision", ["libc.so.6" + "f", "libm.so.6" + "f"] {
            required {
                /// `cosf` in this library.
                fn cos(x: f32) -> f32;
            }
            optional {}
        }
    }

    function_table! {
        /// Functions that do not exist.
        #[expect(dead_code, reason = "they cannot be called")]
        struct Missing: "what is missing", ["libno_such_library.so.1", "libm.so.6"] {
            required {
                /// Exists.
                fn cos(x: f64) -> f64;
                /// Does not exist.
                fn first_missing();
                /// Does not exist.
                fn second_missing(x: i32) -> i32;
            }
            optional {}
        }
    }

    #[test]
    fn a_later_candidate_is_found_and_its_functions_work() {
        let table = Mathematics::get().unwrap();
        let name = &*library::vendor_name("libm.so.6");
        assert_eq!(table.library().name(), name);
        assert!(table.library().file_of("cos").unwrap().ends_with(name));
        assert_eq!(table.library().file_of("no_such_function"), None);
        // SAFETY: the signatures are those of the C standard.
        assert_eq!(unsafe { (table.fmax)((table.cos)(0.0), 0.5) }, 1.0);
        assert!(table.no_such_function.is_none());
        assert!(std::ptr::eq(table, Mathematics::get().unwrap()));
        let fmax = Mathematics::SIGNATURES.iter().find(|signature| signature.name == "fmax").unwrap();
        assert_eq!((fmax.arguments, fmax.result), (["f64", "f64"].as_slice(), "f64"));
        assert_eq!(Mathematics::SIGNATURES.last().unwrap().result, "");
    }

    #[test]
    fn a_library_may_have_its_functions_under_longer_names() {
        let table = Suffixed::get().unwrap();
        let name = &*library::vendor_name("libm.so.6");
        assert_eq!(table.library().name(), name);
        assert!(table.library().file_of("cos").unwrap().ends_with(name));
        // SAFETY: the signature is that of the C standard's cosf.
        assert_eq!(unsafe { (table.cos)(0.0) }, 1.0);
        let message = Suffixed::load_from(&Suffixed::LIBRARIES[..1]).unwrap_err().to_string();
        let other = library::vendor_name("libc.so.6");
        assert!(message.ends_with(&format!("{other} (it lacks cosf)")), "{message}");
        assert!(Suffixed::load_from(&["libm.so.6"]).is_ok());
    }

    #[test]
    fn an_error_names_every_candidate_and_every_missing_function() {
        let found = Missing::get().map(|table| table.library().name());
        let message = found.unwrap_err().to_string();
        assert!(message.starts_with("no library for what is missing was found; looked for "), "{message}");
        assert!(message.contains("libno_such_library.so.1 ("), "{message}");
        let there = library::vendor_name("libm.so.6");
        assert!(message.contains(&format!("{there} (it lacks first_missing, second_missing)")), "{message}");
        assert_eq!(Missing::get().unwrap_err().to_string(), message);
    }

    #[test]
    fn the_loader_explains_why_a_file_is_not_a_library() {
        let path = std::env::temp_dir().join(format!("dynlib_{}.so", std::process::id()));
        std::fs::write(&path, "not an object file").unwrap();
        let message = Library::open(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert_eq!(
            crate::PluginError::from(Error(message.clone())).status(),
            crate::ffi::HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED
        );
        assert_eq!(crate::Refusal::from(Error(message.clone())).to_string(), message);
    }
}
