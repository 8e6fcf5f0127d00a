//! The Vulkan loader, opened at run time.

use std::env::consts::OS;

use ash::{Entry, StaticFn, vk};
use hipdnn_plugin_sdk::dynlib::{self, Library};
use hipdnn_plugin_sdk::lock::OnceLock;

/// The function from which all others are found.
const FIRST: &str = "vkGetInstanceProcAddr";

/// The loader's names on a system; on macOS also MoltenVK, which can be used without a loader, and where Homebrew and LunarG's installer
/// put both, where systems do not look.
fn names(system: &str) -> &'static [&'static str] {
    match system {
        "windows" => &["vulkan-1.dll"],
        "macos" => &[
            "libvulkan.1.dylib",
            "libvulkan.dylib",
            "libMoltenVK.dylib",
            "/opt/homebrew/lib/libvulkan.1.dylib",
            "/usr/local/lib/libvulkan.1.dylib",
            "/opt/homebrew/lib/libMoltenVK.dylib",
            "/usr/local/lib/libMoltenVK.dylib",
        ],
        _ => &["libvulkan.so.1", "libvulkan.so"],
    }
}

/// An open loader and its functions.
struct Loader {
    entry: Entry,
    /// Keeps the functions loaded.
    _library: Library,
}

/// The functions of the loader; the same for the life of the process.
///
/// # Errors
/// Which files were looked for, and what is wrong with each.
pub fn entry() -> Result<&'static Entry, dynlib::Error> {
    static LOADER: OnceLock<Result<Loader, dynlib::Error>> = OnceLock::new();
    let loader = LOADER.get_or_init(|| open(names(OS)));
    loader.as_ref().map(|loader| &loader.entry).map_err(Clone::clone)
}

fn open(names: &[&'static str]) -> Result<Loader, dynlib::Error> {
    dynlib::first("Vulkan", names, |library| {
        // SAFETY: the type is that of the function in Vulkan's headers.
        let first = unsafe { library.function::<vk::PFN_vkGetInstanceProcAddr>(FIRST) };
        let get_instance_proc_addr = first.ok_or_else(|| vec![FIRST])?;
        // SAFETY: the function is the loader's, which stays open beside the entry.
        let entry = unsafe { Entry::from_static_fn(StaticFn { get_instance_proc_addr }) };
        Ok(Loader { entry, _library: library })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_are_looked_for_before_moltenvk() {
        let all = names("macos");
        let first = all.iter().position(|name| name.contains("MoltenVK")).unwrap();
        assert!(all[..first].contains(&"libvulkan.1.dylib"));
        assert!(names("linux").iter().chain(names("windows")).all(|name| !name.contains("MoltenVK")));
    }

    #[test]
    fn a_missing_loader_is_named() {
        let error = open(&["libno_such_vulkan.so.1"]).err().unwrap().to_string();
        assert!(
            error.contains("no library for Vulkan") && error.contains("libno_such_vulkan.so.1"),
            "{error}"
        );
        let error = open(&["libm.so.6"]).err().unwrap().to_string();
        assert!(error.contains("it lacks vkGetInstanceProcAddr"), "{error}");
    }
}
