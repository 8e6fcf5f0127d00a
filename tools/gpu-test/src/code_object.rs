//! What a code object of AMD's compilers says of its kernels: the note of an ELF file, in MessagePack.

use std::collections::BTreeMap;

/// What a kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Vector registers of a thread, those of accumulators too where they come from one file.
    pub registers: u64,
    /// Of these, those of accumulators.
    pub accumulators: u64,
    /// Vector and scalar registers that are kept in memory, or scalar ones in vector registers.
    pub spilled: [u64; 2],
    /// Bytes of memory of a thread.
    pub scratch: u64,
    /// Bytes of shared memory of a workgroup.
    pub shared: u64,
    /// Threads of a workgroup, at most, and of a wave.
    pub threads: u64,
    pub wave: u64,
}

/// A value of MessagePack.
#[derive(Debug)]
enum Packed {
    Map(BTreeMap<String, Packed>),
    List(Vec<Packed>),
    Text(String),
    Number(u64),
    Other,
}

/// The kernels of a code object.
///
/// # Errors
/// What is not as expected.
pub fn kernels(code: &[u8]) -> Result<Vec<Kernel>, String> {
    let note = note(code).ok_or("the code object has no note with metadata")?;
    let mut rest = note;
    let Some(Packed::Map(all)) = packed(&mut rest) else { return Err("the note is not a map".to_owned()) };
    let Some(Packed::List(kernels)) = all.get("amdhsa.kernels") else {
        return Err("the note has no kernels".to_owned());
    };
    let of = |own: &Packed| {
        let Packed::Map(own) = own else { return Kernel::default() };
        let number = |name: &str| match own.get(name) {
            Some(Packed::Number(number)) => *number,
            _ => 0,
        };
        Kernel {
            name: match own.get(".name") {
                Some(Packed::Text(name)) => name.clone(),
                _ => String::new(),
            },
            registers: number(".vgpr_count"),
            accumulators: number(".agpr_count"),
            spilled: [number(".vgpr_spill_count"), number(".sgpr_spill_count")],
            scratch: number(".private_segment_fixed_size"),
            shared: number(".group_segment_fixed_size"),
            threads: number(".max_flat_workgroup_size"),
            wave: number(".wavefront_size"),
        }
    };
    Ok(kernels.iter().map(of).collect())
}

/// A number of `size` bytes, the lowest first, at a place.
fn word(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let own = bytes.get(at..at.checked_add(size)?)?;
    usize::try_from(own.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
}

/// The metadata of a 64-bit ELF file.
fn note(code: &[u8]) -> Option<&[u8]> {
    code.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (sections, size, count) = (word(code, 0x28, 8)?, word(code, 0x3a, 2)?, word(code, 0x3c, 2)?);
    for place in 0..count {
        let header = sections.checked_add(place * size)?;
        if word(code, header + 4, 4)? != 7 {
            continue;
        }
        let (first, length) = (word(code, header + 0x18, 8)?, word(code, header + 0x20, 8)?);
        let mut notes = code.get(first..first.checked_add(length)?)?;
        while !notes.is_empty() {
            let (name, content, kind) = (word(notes, 0, 4)?, word(notes, 4, 4)?, word(notes, 8, 4)?);
            let begin = 12 + name.next_multiple_of(4);
            if kind == 32 && notes.get(12..)?.starts_with(b"AMDGPU\0") {
                return notes.get(begin..begin.checked_add(content)?);
            }
            notes = notes.get(begin.checked_add(content.next_multiple_of(4))?..)?;
        }
    }
    None
}

/// Takes bytes from the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (own, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(own)
}

/// Takes a number, the highest byte first.
fn length(rest: &mut &[u8], size: usize) -> Option<usize> {
    let own = take(rest, size)?;
    usize::try_from(own.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
}

/// Takes a value.
fn packed(rest: &mut &[u8]) -> Option<Packed> {
    let kind = length(rest, 1)?;
    Some(match kind {
        0x00..=0x7f => Packed::Number(kind as u64),
        0x80..=0x8f => map(rest, kind & 15)?,
        0x90..=0x9f => list(rest, kind & 15)?,
        0xa0..=0xbf => text(rest, kind & 31)?,
        0xcc..=0xcf => Packed::Number(length(rest, 1 << (kind & 3))? as u64),
        0xd0..=0xd3 => {
            take(rest, 1 << (kind & 3))?;
            Packed::Other
        }
        0xd9..=0xdb => {
            let count = length(rest, 1 << (kind - 0xd9))?;
            text(rest, count)?
        }
        0xdc | 0xdd => {
            let count = length(rest, 2 << (kind & 1))?;
            list(rest, count)?
        }
        0xde | 0xdf => {
            let count = length(rest, 2 << (kind & 1))?;
            map(rest, count)?
        }
        0xc0..=0xc3 | 0xe0..=0xff => Packed::Other,
        _ => return None,
    })
}

fn text(rest: &mut &[u8], count: usize) -> Option<Packed> {
    Some(Packed::Text(String::from_utf8(take(rest, count)?.to_vec()).ok()?))
}

fn list(rest: &mut &[u8], count: usize) -> Option<Packed> {
    (0..count).map(|_| packed(rest)).collect::<Option<_>>().map(Packed::List)
}

fn map(rest: &mut &[u8], count: usize) -> Option<Packed> {
    let pair = |rest: &mut &[u8]| {
        let Packed::Text(name) = packed(rest)? else { return None };
        Some((name, packed(rest)?))
    };
    (0..count).map(|_| pair(rest)).collect::<Option<_>>().map(Packed::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with two sections, of which the second is a note.
    fn file(metadata: &[u8]) -> Vec<u8> {
        let mut code = b"\x7fELF\x02\x01".to_vec();
        code.resize(0x40, 0);
        code[0x28] = 0x40;
        (code[0x3a], code[0x3c]) = (0x40, 2);
        code.resize(0xc0, 0);
        (code[0x84], code[0x98]) = (7, 0xc0);
        code[0xa0] = 20 + metadata.len().next_multiple_of(4) as u8;
        code.extend([7, 0, 0, 0, metadata.len() as u8, 0, 0, 0, 32, 0, 0, 0]);
        code.extend(b"AMDGPU\0\0");
        code.extend(metadata);
        code.resize(code.len().next_multiple_of(4), 0);
        code
    }

    #[test]
    fn kernels_are_found_in_the_note() {
        let mut metadata = vec![0x81, 0xae];
        metadata.extend(b"amdhsa.kernels");
        metadata.extend([0x91, 0x84, 0xa5]);
        metadata.extend(b".name\xa1k");
        metadata.push(0xab);
        metadata.extend(b".vgpr_count\xcc\xb4");
        metadata.extend(b"\xd9\x19.group_segment_fixed_size\xcd\x12\x34");
        metadata.extend(b"\xa5.args\xdc\x00\x01\xc0");
        let expected = Kernel { name: "k".to_owned(), registers: 180, shared: 0x1234, ..Kernel::default() };
        assert_eq!(kernels(&file(&metadata)), Ok(vec![expected]));
        for short in 0..metadata.len() {
            assert!(kernels(&file(&metadata[..short])).is_err());
        }
        assert!(kernels(b"PTX").is_err());
    }
}
