//! Loaded programs and libraries, found through the loader's list and their own tables.
//!
//! The list has a lock of its own, under which no foreign code runs; an object's name and exports are read
//! from its memory.

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::{ptr, slice};

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// A loaded program or library.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    name: &'a CStr,
    base: usize,
    headers: &'a [Elf64_Phdr],
}

/// Whether `f` has found what it is looking for.
type Look<'a> = &'a mut dyn FnMut(Object) -> bool;

/// Calls `f` with each object until it returns a value, which is the result. `f` must not call `find` itself.
pub fn find<R>(mut f: impl FnMut(Object) -> Option<R>) -> Option<R> {
    let mut found = None;
    let mut look: Look = &mut |object| {
        found = f(object);
        found.is_some()
    };
    // SAFETY: the callback gets the pointer that it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut look).cast()) };
    found
}

/// # Safety
/// `info` is what the loader passes, valid during the call, and `look` the pointer that was passed to `dl_iterate_phdr`.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, look: *mut c_void) -> c_int {
    // SAFETY: the loader's struct and what it points to are valid during the call, and the pointer is the one above.
    unsafe {
        let info = &*info;
        let name = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
        let headers: &[Elf64_Phdr] = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        };
        let look = &mut *look.cast::<Look>();
        c_int::from(look(Object { name, base: info.dlpi_addr as usize, headers }))
    }
}

/// How many objects the loader has loaded so far; none if it does not say.
pub fn loads() -> Option<u64> {
    let mut count: Option<u64> = None;
    // SAFETY: the callback gets the pointer that it expects.
    unsafe { libc::dl_iterate_phdr(Some(count_loads), (&raw mut count).cast()) };
    count
}

/// # Safety
/// `info` is what the loader passes, of `size` bytes, and `count` the pointer that was passed to `dl_iterate_phdr`.
unsafe extern "C" fn count_loads(info: *mut dl_phdr_info, size: usize, count: *mut c_void) -> c_int {
    if size >= offset_of!(dl_phdr_info, dlpi_subs) {
        // SAFETY: the loader's struct reaches beyond the count, and the pointer is the one above.
        unsafe { *count.cast::<Option<u64>>() = Some((*info).dlpi_adds) };
    }
    // The first object says it.
    1
}

impl Object<'_> {
    /// Whether an address lies in the object.
    pub fn contains(&self, address: usize) -> bool {
        self.headers.iter().any(|header| {
            let begin = self.base.wrapping_add(header.p_vaddr as usize);
            header.p_type == PT_LOAD && address.wrapping_sub(begin) < header.p_memsz as usize
        })
    }

    /// Whether this is its file name or soname.
    pub fn is_named(&self, name: &CStr) -> bool {
        // Every handle of a process without a GPU compares all names.
        let folder = self.name.to_bytes().strip_suffix(name.to_bytes());
        folder.is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
            || self.soname() == Some(name)
    }

    /// An entry of the object's dynamic section.
    fn entry(&self, tag: u64) -> Option<usize> {
        let header = self.headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        let section =
            ptr::with_exposed_provenance::<[u64; 2]>(self.base.wrapping_add(header.p_vaddr as usize));
        for i in 0..header.p_memsz as usize / size_of::<[u64; 2]>() {
            // SAFETY: the section is as long as the header says, and stays while the object is loaded.
            let [found, value] = unsafe { section.add(i).read() };
            if found == tag {
                return Some(value as usize);
            }
            if found == DT_NULL {
                break;
            }
        }
        None
    }

    /// The table that an entry points to. Most loaders have relocated the entry to an address, some leave it
    /// relative to the base.
    fn table<T>(&self, tag: u64) -> Option<*const T> {
        let value = self.entry(tag)?;
        let address = if value < self.base { self.base.wrapping_add(value) } else { value };
        Some(ptr::with_exposed_provenance(address))
    }

    fn soname(&self) -> Option<&CStr> {
        let (offset, texts) = (self.entry(DT_SONAME)?, self.table::<libc::c_char>(DT_STRTAB)?);
        // SAFETY: the entry is an offset into the object's texts, each of which ends with a NUL.
        Some(unsafe { CStr::from_ptr(texts.add(offset)) })
    }

    /// The address of an exported function; also none if the object has no GNU hash table.
    pub fn function(&self, name: &CStr) -> Option<*const ()> {
        let add = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
        let hash = name.to_bytes().iter().fold(5381, add);
        let texts = self.table::<libc::c_char>(DT_STRTAB)?;
        let symbols = self.table::<Elf64_Sym>(DT_SYMTAB)?;
        let table = self.table::<u32>(DT_GNU_HASH)?;
        // SAFETY: the table as written by the linker: four numbers, a filter of words of 8 bytes, the first symbol of each bucket, and for
        // each symbol from `first` on its hash, whose lowest bit is set where a bucket ends. Only such places are read below.
        let number = |at: usize| unsafe { table.add(at).read() };
        let [buckets, first, filter] = [0, 1, 2].map(number);
        let bucket = 4 + 2 * filter as usize;
        let hashes = bucket + buckets as usize;
        let mut index = number(bucket + hash.checked_rem(buckets)? as usize);
        if index < first {
            return None;
        }
        loop {
            let found = number(hashes + (index - first) as usize);
            // SAFETY: each hash is that of the symbol with its index.
            let symbol = unsafe { &*symbols.add(index as usize) };
            // SAFETY: a symbol's name is an offset into the object's texts, each of which ends with a NUL.
            let is_named = || unsafe { CStr::from_ptr(texts.add(symbol.st_name as usize)) } == name;
            if found | 1 == hash | 1 && symbol.st_shndx != 0 && is_named() {
                return Some(ptr::with_exposed_provenance(self.base.wrapping_add(symbol.st_value as usize)));
            }
            if found & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_that_the_loader_finds() {
        for name in [c"getpid", c"qsort", c"strtod", c"opendir"] {
            // SAFETY: the name ends with a NUL.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            let has = |object: &Object| object.contains(expected.expose_provenance());
            let found = find(|object| has(&object).then(|| object.function(name)));
            assert_eq!(found.flatten(), Some(expected.cast_const().cast()), "{name:?}");
            let absent = find(|object| has(&object).then(|| object.function(c"no such function")));
            assert_eq!(absent, Some(None));
        }
    }
}
