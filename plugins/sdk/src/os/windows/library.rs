//! Shared libraries: their names, and the loader's own functions.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString, c_void};
use std::os::windows::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::windows;

use super::{api, paths};

/// The loader's library.
pub type Library = windows::Library;

/// File name extension of libraries.
pub const EXTENSION: &str = "dll";

/// A library's file name.
pub fn file_name(name: &OsStr) -> OsString {
    let mut file = name.to_owned();
    file.push(".dll");
    file
}

/// Vendor libraries with another name on Windows: the beginning of the name on Linux, and the name here.
const VENDORS: [(&str, &str); 20] = [
    ("libamdhip64.so.7", "amdhip64_7.dll"),
    ("libamdhip64.so.6", "amdhip64_6.dll"),
    ("libhiprtc.so.7", "hiprtc07"),
    ("libhiprtc.so.6", "hiprtc06"),
    ("libMIOpen_private.so.1", "MIOpen_private.dll"),
    ("libMIOpen.so.1", "MIOpen.dll"),
    ("libhipblaslt.so.1", "libhipblaslt.dll"),
    ("libhipblaslt.so.0", "hipblaslt.dll"),
    ("librocblas.so.5", "rocblas.dll"),
    ("librocblas.so.4", "librocblas.dll"),
    ("libcuda.so.1", "nvcuda.dll"),
    ("libnvrtc.so.13", "nvrtc64_130_0.dll"),
    ("libnvrtc.so.12", "nvrtc64_120_0.dll"),
    ("libcudnn.so.9", "cudnn64_9.dll"),
    ("libcublasLt.so.13", "cublasLt64_13.dll"),
    ("libcublasLt.so.12", "cublasLt64_12.dll"),
    // A plugin of this project, for the others.
    ("libhipdnn_vulkan_plugin.so", "hipdnn_vulkan_plugin.dll"),
    // System and compiler libraries. The C library contains the mathematical functions.
    ("libc.so.6", "kernel32.dll"),
    ("libm.so.6", "ucrtbase.dll"),
    ("libstdc++.so.6", "libstdc++-6.dll"),
];

/// This system's name of a vendor's library, given its name on Linux. If the name contains a release number,
/// the last one found next to the HIP runtime, in the system's folder or on the path.
pub fn vendor_name(name: &str) -> Cow<'_, str> {
    let Some((_, own)) = VENDORS.iter().find(|(linux, _)| *linux == name) else { return Cow::Borrowed(name) };
    if own.ends_with(".dll") {
        return Cow::Borrowed(own);
    }
    let mut folders: Vec<PathBuf> =
        ["amdhip64_7.dll", "amdhip64_6.dll"].iter().filter_map(folder_of).collect();
    folders.push(PathBuf::from(r"C:\Windows\System32"));
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found = folders.iter().find_map(|folder| last_of_release(folder, own));
    Cow::Owned(found.map_or_else(|| format!("{own}00.dll"), |path| path.to_string_lossy().into_owned()))
}

/// The folder of a loaded library.
fn folder_of(name: &&str) -> Option<PathBuf> {
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let mut module = ptr::null_mut();
    // SAFETY: the name ends with a NUL, and the function writes only to the local `module`.
    let found =
        unsafe { api::GetModuleHandleExW(api::MODULE_UNCHANGED_REFCOUNT, name.as_ptr(), &mut module) };
    if found == 0 {
        return None;
    }
    file_of_module(module)?.parent().map(Path::to_owned)
}

/// The last file in a folder whose name is this beginning followed by digits.
fn last_of_release(folder: &Path, begin: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let rest = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(".dll"));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    files.filter(is_one).max()
}

/// The library folders within a toolkit's folder; Python packages have the last one.
pub const VENDOR_FOLDERS: [&str; 3] = ["", "bin/x64", "bin"];

/// The files that are mapped into this process: not listed.
pub fn mapped_files() -> String {
    String::new()
}

/// Accepts any file: the loader itself rejects truncated libraries.
///
/// # Errors
/// None.
pub fn check(_: &OsStr) -> Result<(), String> {
    Ok(())
}

/// Opens a library by its path or, for a bare name, through the loader's search. Its dependencies are
/// searched next to it, in the system's folders and those added by the program, and then on the path.
///
/// # Safety
/// Running the library's initializers, and its finalizers when it is closed, is sound.
///
/// # Errors
/// The loader's message.
pub unsafe fn open(name: &OsStr) -> Result<Library, String> {
    let path = Path::new(name);
    let is_name = path.file_name() == Some(name);
    // The system only searches a library's folder for dependencies if its path is absolute.
    let whole = if is_name { path.to_owned() } else { std::path::absolute(path).unwrap_or(path.to_owned()) };
    let load = |flags| {
        // SAFETY: this function requires that running the library's initializers is sound.
        let opened = unsafe { windows::Library::load_with_flags(&whole, flags) };
        opened.map_err(|error| words_of(name, &error))
    };
    let (beside, on_path) = match is_name {
        true => (0, 0),
        false => (windows::LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, windows::LOAD_WITH_ALTERED_SEARCH_PATH),
    };
    load(beside | windows::LOAD_LIBRARY_SEARCH_DEFAULT_DIRS)
        .or_else(|reason| load(on_path).map_err(|_| reason))
}

/// A library that the process has already loaded under this name; keeps it loaded.
///
/// # Errors
/// The loader's message.
pub fn loaded(name: &OsStr) -> Result<Library, String> {
    windows::Library::open_already_loaded(name).map_err(|error| words_of(name, &error))
}

fn words_of(name: &OsStr, error: &libloading::Error) -> String {
    let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    format!("{}: {}", name.display(), reason.trim_end())
}

/// The address of a symbol.
pub fn address(library: &Library, name: &str) -> Option<*const ()> {
    // SAFETY: what is at the address is not touched.
    unsafe { library.get::<*const ()>(name) }.ok().map(|symbol| *symbol).filter(|address| !address.is_null())
}

/// The file that contains an address.
pub fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut module = ptr::null_mut();
    let flags = api::MODULE_FROM_ADDRESS | api::MODULE_UNCHANGED_REFCOUNT;
    // SAFETY: any address may be passed, and the function writes only to the local `module`.
    let found = unsafe { api::GetModuleHandleExW(flags, address.cast(), &mut module) };
    // A null address would mean the program itself.
    if found == 0 || address.is_null() { None } else { file_of_module(module).map(paths::without_prefix) }
}

/// The file of a module of this process.
pub fn file_of_module(module: api::Handle) -> Option<PathBuf> {
    let mut name = vec![0_u16; 260];
    loop {
        let room = u32::try_from(name.len()).ok()?;
        // SAFETY: the buffer has the room that is given.
        let length = unsafe { api::GetModuleFileNameW(module, name.as_mut_ptr(), room) } as usize;
        match name.get(..length) {
            None | Some([]) => return None,
            // A name that fills the buffer was truncated.
            Some(_) if length == name.len() => name.resize(2 * length, 0),
            Some(whole) => return Some(OsString::from_wide(whole).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_libraries_have_other_names() {
        assert_eq!(vendor_name("libcuda.so.1"), "nvcuda.dll");
        assert_eq!(vendor_name("something.dll"), "something.dll");
        assert_eq!(vendor_name("libhiprtc.so.6"), "hiprtc0600.dll");
    }

    #[test]
    fn the_last_release_of_a_name_with_its_number_is_taken() {
        let folder = std::env::temp_dir().join(format!("hipdnn_release_{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["hiprtc0702.dll", "HIPRTC0714.dll", "hiprtc07.dll", "hiprtc0799.txt", "hiprtc07-x.dll"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = last_of_release(&folder, "hiprtc07").unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(["HIPRTC0714.dll", "hiprtc0702.dll"].contains(&found.file_name().unwrap().to_str().unwrap()));
    }

    #[test]
    fn code_lies_in_the_program() {
        let here = code_lies_in_the_program as *const () as *const c_void;
        assert_eq!(file_of(here), std::env::current_exe().ok());
        assert_eq!(file_of(ptr::null()), None);
    }
}
