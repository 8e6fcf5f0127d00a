//! Loaded programs and libraries.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;

use super::{api, library};

/// A loaded program or library.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    module: api::Handle,
    here: PhantomData<&'a ()>,
}

/// Calls `f` with each object until it returns a value, which is the result.
pub fn find<R>(mut f: impl FnMut(Object<'_>) -> Option<R>) -> Option<R> {
    let mut modules = vec![ptr::null_mut(); 256];
    loop {
        let (mut needed, room) = (0, u32::try_from(size_of_val(modules.as_slice())).ok()?);
        // SAFETY: the buffer has the room that is given, and the number is written.
        let asked = unsafe {
            api::K32EnumProcessModules(api::GetCurrentProcess(), modules.as_mut_ptr(), room, &mut needed)
        };
        if asked == 0 {
            return None;
        }
        let is_whole = needed <= room;
        modules.resize(needed as usize / size_of::<api::Handle>(), ptr::null_mut());
        if is_whole {
            break;
        }
    }
    modules.into_iter().find_map(|module| f(Object { module, here: PhantomData }))
}

/// How many objects the loader has loaded so far; none: it does not say.
pub fn loads() -> Option<u64> {
    None
}

impl Object<'_> {
    /// Whether an address lies in the object.
    pub fn contains(&self, address: usize) -> bool {
        let mut found = api::ModuleInformation { base: ptr::null_mut(), size: 0, entry: ptr::null_mut() };
        // SAFETY: the struct is written where the module is loaded.
        let asked = unsafe {
            let room = size_of_val(&found) as u32;
            api::K32GetModuleInformation(api::GetCurrentProcess(), self.module, &mut found, room)
        };
        asked != 0 && address.wrapping_sub(found.base.addr()) < found.size as usize
    }

    /// Whether this is its file name, ignoring case.
    pub fn is_named(&self, name: &CStr) -> bool {
        let file = library::file_of_module(self.module);
        let file = file.as_deref().and_then(std::path::Path::file_name);
        file.is_some_and(|file| file.to_string_lossy().eq_ignore_ascii_case(&name.to_string_lossy()))
    }

    /// The address of an exported function.
    pub fn function(&self, name: &CStr) -> Option<*const ()> {
        // SAFETY: the name ends with a NUL; the system detects an unloaded module.
        let address = unsafe { api::GetProcAddress(self.module, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_library_is_there_with_its_functions() {
        let is_it = |object: Object<'_>| object.is_named(c"Kernel32.dll").then(|| object.function(c"Sleep"));
        let function = find(is_it).flatten().unwrap();
        let within = |object: Object<'_>| object.contains(function.addr()).then_some(());
        assert_eq!(find(within), Some(()));
        assert!(find(|object| object.is_named(c"no such.dll").then_some(())).is_none());
    }
}
