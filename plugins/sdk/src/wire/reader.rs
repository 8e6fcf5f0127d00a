//! Bounds-checked reading of FlatBuffers tables.
//!
//! The format's Rust code generator refuses unions of structs, which the tensor values are, so the tables are read here by
//! slot. Nothing is trusted: each access checks the position it is about to read, whether or not the bytes were verified.

use crate::graph::GraphError;

type Result<T> = std::result::Result<T, GraphError>;

fn broken(what: &str, at: usize) -> GraphError {
    GraphError(format!("the bytes are not a well-formed FlatBuffer: {what} at byte {at}"))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    at.checked_add(N)
        .and_then(|end| bytes.get(at..end))
        .and_then(|slice| slice.try_into().ok())
        .ok_or_else(|| broken("a value outside the buffer", at))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(array(bytes, at)?))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    if !at.is_multiple_of(4) {
        return Err(broken("a misaligned offset or length", at));
    }
    Ok(u32::from_le_bytes(array(bytes, at)?))
}

/// Where the offset at `at` points.
fn follow(bytes: &[u8], at: usize) -> Result<usize> {
    let offset = u32_at(bytes, at)? as usize;
    if offset == 0 {
        return Err(broken("an offset that points to itself", at));
    }
    match at.checked_add(offset) {
        Some(target) if target < bytes.len() => Ok(target),
        _ => Err(broken("an offset that leaves the buffer", at)),
    }
}

/// A table: its fields are found through the list of slots that precedes or follows it.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    size: usize,
    slots: usize,
    slots_size: usize,
}

impl<'a> Table<'a> {
    /// The root table of a buffer.
    pub fn root(bytes: &'a [u8]) -> Result<Self> {
        Self::open(bytes, follow(bytes, 0)?)
    }

    fn open(bytes: &'a [u8], at: usize) -> Result<Self> {
        let back = u32_at(bytes, at)?.cast_signed();
        let slots = i64::try_from(at).ok().and_then(|at| usize::try_from(at - i64::from(back)).ok());
        let slots = slots
            .filter(|slots| slots.is_multiple_of(2))
            .ok_or_else(|| broken("a table without slots", at))?;
        let slots_size = usize::from(u16_at(bytes, slots)?);
        let size = usize::from(u16_at(bytes, slots + 2)?);
        if slots_size < 4 || !slots_size.is_multiple_of(2) || slots + slots_size > bytes.len() {
            return Err(broken("a list of slots of impossible size", slots));
        }
        if size < 4 || at + size > bytes.len() {
            return Err(broken("a table that leaves the buffer", at));
        }
        Ok(Self { bytes, at, size, slots, slots_size })
    }

    /// The bytes that the table itself takes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where field `index` of `size` bytes lies, if it is there.
    fn field(&self, index: u16, size: usize) -> Result<Option<usize>> {
        let slot = 4 + 2 * usize::from(index);
        if slot + 2 > self.slots_size {
            return Ok(None);
        }
        let offset = usize::from(u16_at(self.bytes, self.slots + slot)?);
        if offset == 0 {
            return Ok(None);
        }
        let at = self.at + offset;
        if offset + size > self.size || !at.is_multiple_of(size.min(8)) {
            return Err(broken("a field outside its table or misaligned", at));
        }
        Ok(Some(at))
    }

    /// Whether field `index` is there at all.
    pub fn has(&self, index: u16) -> Result<bool> {
        Ok(self.field(index, 1)?.is_some())
    }

    /// The scalar of field `index`.
    pub fn scalar<T: Scalar>(&self, index: u16) -> Result<Option<T>> {
        self.field(index, T::SIZE)?.map(|at| T::read(self.bytes, at)).transpose()
    }

    /// A struct of `N` bytes in field `index`, aligned to `align`.
    pub fn inline<const N: usize>(&self, index: u16, align: usize) -> Result<Option<[u8; N]>> {
        let Some(at) = self.field(index, 1)? else { return Ok(None) };
        if at + N > self.at + self.size || !at.is_multiple_of(align) {
            return Err(broken("a struct outside its table or misaligned", at));
        }
        array(self.bytes, at).map(Some)
    }

    fn target(&self, index: u16) -> Result<Option<usize>> {
        self.field(index, 4)?.map(|at| follow(self.bytes, at)).transpose()
    }

    /// The table that field `index` points to.
    pub fn table(&self, index: u16) -> Result<Option<Table<'a>>> {
        self.target(index)?.map(|at| Table::open(self.bytes, at)).transpose()
    }

    /// The struct of `N` bytes that union field `index` points to, aligned to its size.
    pub fn pointed<const N: usize>(&self, index: u16) -> Result<Option<[u8; N]>> {
        let Some(at) = self.target(index)? else { return Ok(None) };
        if !at.is_multiple_of(N) {
            return Err(broken("a misaligned value", at));
        }
        array(self.bytes, at).map(Some)
    }

    fn elements(&self, index: u16, size: usize) -> Result<Option<&'a [u8]>> {
        let Some(at) = self.target(index)? else { return Ok(None) };
        let count = u32_at(self.bytes, at)? as usize;
        count
            .checked_mul(size)
            .and_then(|length| self.bytes.get(at + 4..(at + 4).checked_add(length)?))
            .map(Some)
            .ok_or_else(|| broken("a vector that leaves the buffer", at))
    }

    /// The bytes of a vector of bytes.
    pub fn raw(&self, index: u16) -> Result<Option<&'a [u8]>> {
        self.elements(index, 1)
    }

    /// The bytes of a text, without its terminator.
    pub fn text(&self, index: u16) -> Result<Option<&'a [u8]>> {
        let Some(text) = self.elements(index, 1)? else { return Ok(None) };
        let end = text.as_ptr().addr() - self.bytes.as_ptr().addr() + text.len();
        match self.bytes.get(end) {
            Some(0) => Ok(Some(text)),
            _ => Err(broken("a text without a terminator", end)),
        }
    }

    /// The scalars of a vector; empty where it is absent.
    pub fn scalars<T: Scalar>(&self, index: u16) -> Result<impl ExactSizeIterator<Item = T> + use<'a, T>> {
        let bytes = self.elements(index, T::SIZE)?.unwrap_or_default();
        Ok(bytes.chunks_exact(T::SIZE).map(T::from_chunk))
    }

    /// The tables of a vector; empty where it is absent.
    pub fn tables(&self, index: u16) -> Result<impl ExactSizeIterator<Item = Result<Table<'a>>> + use<'a>> {
        let bytes = self.bytes;
        let offsets = self.elements(index, 4)?.unwrap_or_default();
        let first = offsets.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        Ok((0..offsets.len() / 4).map(move |i| Table::open(bytes, follow(bytes, first + 4 * i)?)))
    }

    /// The texts of a vector; empty where it is absent.
    pub fn texts(&self, index: u16) -> Result<Vec<String>> {
        let offsets = self.elements(index, 4)?.unwrap_or_default();
        let first = offsets.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        (0..offsets.len() / 4)
            .map(|i| {
                let at = follow(self.bytes, first + 4 * i)?;
                let length = u32_at(self.bytes, at)? as usize;
                let text = (at + 4).checked_add(length).and_then(|end| self.bytes.get(at + 4..end));
                let text = text.ok_or_else(|| broken("a text that leaves the buffer", at))?;
                Ok(String::from_utf8_lossy(text).into_owned())
            })
            .collect()
    }
}

/// A number as it lies in a buffer.
pub(super) trait Scalar: Sized {
    /// Its bytes.
    const SIZE: usize;

    /// The number at a position.
    fn read(bytes: &[u8], at: usize) -> Result<Self>;

    /// The number in exactly [`Scalar::SIZE`] bytes.
    fn from_chunk(chunk: &[u8]) -> Self;
}

macro_rules! scalars {
    ($($t:ty)+) => {$(
        impl Scalar for $t {
            const SIZE: usize = size_of::<$t>();

            fn read(bytes: &[u8], at: usize) -> Result<Self> {
                array(bytes, at).map(<$t>::from_le_bytes)
            }

            fn from_chunk(chunk: &[u8]) -> Self {
                chunk.try_into().map_or_else(|_| <$t>::default(), <$t>::from_le_bytes)
            }
        }
    )+};
}

scalars!(u8 i32 i64 f32 f64);
