//! Bounds-checked reading of FlatBuffers tables.
//!
//! The format's Rust code generator does not support unions of structs, such as the tensor values, so tables
//! are read here slot by slot. Nothing is trusted: each access checks the position it reads, whether or not
//! the bytes were verified.

use crate::graph::GraphError;

/// An error in the bytes, and where. Small, because every read may return it; the message is built later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    what: What,
    at: u32,
}

#[derive(Clone, Copy, Debug)]
enum What {
    ValueOutside,
    Misaligned,
    OffsetToItself,
    OffsetOutside,
    NoSlots,
    SlotsSize,
    TableOutside,
    FieldOutside,
    VectorOutside,
    NoTerminator,
}

impl From<Broken> for GraphError {
    #[cold]
    fn from(broken: Broken) -> Self {
        let what = match broken.what {
            What::ValueOutside => "a value outside the buffer",
            What::Misaligned => "a misaligned offset or value",
            What::OffsetToItself => "an offset that points to itself",
            What::OffsetOutside => "an offset beyond the buffer",
            What::NoSlots => "a table without slots",
            What::SlotsSize => "a list of slots of impossible size",
            What::TableOutside => "a table beyond the buffer",
            What::FieldOutside => "a field outside its table or misaligned",
            What::VectorOutside => "a vector or text beyond the buffer",
            What::NoTerminator => "a text without a terminator",
        };
        Self(format!("the bytes are not a well-formed FlatBuffer: {what} at byte {}", broken.at))
    }
}

type Result<T> = std::result::Result<T, Broken>;

#[cold]
fn broken(what: What, at: usize) -> Broken {
    Broken { what, at: at as u32 }
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    if at & 3 != 0 {
        return Err(broken(What::Misaligned, at));
    }
    array(bytes, at).map(u32::from_le_bytes).ok_or_else(|| broken(What::ValueOutside, at))
}

/// The target of the offset at `at`.
#[inline(always)]
fn follow(bytes: &[u8], at: usize) -> Result<usize> {
    jump(bytes, at, u32_at(bytes, at)?)
}

/// The target of `offset`, which was read at `at`.
#[inline(always)]
fn jump(bytes: &[u8], at: usize, offset: u32) -> Result<usize> {
    let target = at + offset as usize;
    if offset == 0 {
        return Err(broken(What::OffsetToItself, at));
    }
    if target >= bytes.len() {
        return Err(broken(What::OffsetOutside, at));
    }
    Ok(target)
}

/// A table: its fields are found through the list of slots before or after it.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The table's own bytes, starting at `at`.
    body: &'a [u8],
    /// Where each field begins in the body; 0 if it is absent.
    slots: &'a [[u8; 2]],
}

impl<'a> Table<'a> {
    /// The root table of a buffer.
    pub fn root(bytes: &'a [u8]) -> Result<Self> {
        Self::open(bytes, follow(bytes, 0)?)
    }

    /// The table at `at`. Always inline: returning a table through memory costs more than opening it.
    #[inline(always)]
    pub fn open(bytes: &'a [u8], at: usize) -> Result<Self> {
        let back = u32_at(bytes, at)?.cast_signed() as isize;
        let slots = at.checked_add_signed(-back).filter(|slots| slots & 1 == 0);
        let slots = slots.ok_or_else(|| broken(What::NoSlots, at))?;
        let header = array::<4>(bytes, slots).ok_or_else(|| broken(What::NoSlots, at))?;
        let [a, b, c, d] = header;
        let (slots_size, size) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let list = bytes.get(slots + 4..slots + usize::from(slots_size)).filter(|_| slots_size & 1 == 0);
        let list = list.ok_or_else(|| broken(What::SlotsSize, slots))?;
        let body = bytes.get(at..at + usize::from(size)).filter(|_| size >= 4);
        let body = body.ok_or_else(|| broken(What::TableOutside, at))?;
        Ok(Self { bytes, at, body, slots: list.as_chunks().0 })
    }

    /// The table's own size in bytes.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    /// Where field `index` begins in the body, 0 if it is absent.
    #[inline(always)]
    fn slot(&self, index: u16) -> usize {
        self.slots.get(usize::from(index)).map_or(0, |slot| usize::from(u16::from_le_bytes(*slot)))
    }

    /// The bytes of field `index`, if present. `ALIGN` is a power of two.
    #[inline(always)]
    fn field<const N: usize, const ALIGN: usize>(&self, index: u16) -> Result<Option<[u8; N]>> {
        let offset = self.slot(index);
        if offset == 0 {
            return Ok(None);
        }
        // Offsets have 16 bits, so the end cannot overflow: one comparison checks both bounds.
        let field = self.body.get(offset..offset + N).and_then(<[u8]>::first_chunk);
        match field {
            Some(field) if (self.at + offset) & (ALIGN - 1) == 0 => Ok(Some(*field)),
            _ => Err(broken(What::FieldOutside, self.at + offset)),
        }
    }

    /// Whether field `index` is present.
    pub fn has(&self, index: u16) -> bool {
        self.slot(index) != 0
    }

    /// Where field `index` begins in the buffer; the beginning of the table if it is absent.
    pub fn place(&self, index: u16) -> usize {
        self.at + self.slot(index)
    }

    /// The scalar of field `index`.
    #[inline(always)]
    pub fn scalar<T: Scalar>(&self, index: u16) -> Result<Option<T>> {
        T::of_field(self, index)
    }

    /// A struct of `N` bytes in field `index`.
    pub fn inline<const N: usize, const ALIGN: usize>(&self, index: u16) -> Result<Option<[u8; N]>> {
        self.field::<N, ALIGN>(index)
    }

    /// The position that field `index` points to.
    #[inline(always)]
    pub fn target(&self, index: u16) -> Result<Option<usize>> {
        match self.field::<4, 4>(index)? {
            None => Ok(None),
            Some(offset) => {
                jump(self.bytes, self.at + self.slot(index), u32::from_le_bytes(offset)).map(Some)
            }
        }
    }

    /// The table that field `index` points to.
    pub fn table(&self, index: u16) -> Result<Option<Table<'a>>> {
        self.target(index)?.map(|at| Table::open(self.bytes, at)).transpose()
    }

    /// The struct that union field `index` points to; its size and alignment are `N`, a power of two.
    pub fn pointed<const N: usize>(&self, index: u16) -> Result<Option<[u8; N]>> {
        let Some(at) = self.target(index)? else { return Ok(None) };
        match array(self.bytes, at) {
            Some(value) if at & (N - 1) == 0 => Ok(Some(value)),
            Some(_) => Err(broken(What::Misaligned, at)),
            None => Err(broken(What::ValueOutside, at)),
        }
    }

    /// The bytes of a vector of `N`-byte elements, and where they begin; empty if the vector is absent.
    #[inline(always)]
    fn elements<const N: usize>(&self, index: u16) -> Result<(usize, &'a [u8])> {
        let Some(at) = self.target(index)? else { return Ok((0, &[])) };
        if at & 3 != 0 {
            return Err(broken(What::Misaligned, at));
        }
        let Some((count, rest)) = self.bytes.get(at..).and_then(<[u8]>::split_first_chunk) else {
            return Err(broken(What::ValueOutside, at));
        };
        let elements = rest.get(..u32::from_le_bytes(*count) as usize * N);
        elements.map(|elements| (at + 4, elements)).ok_or_else(|| broken(What::VectorOutside, at))
    }

    /// The bytes of a vector of bytes; empty if it is absent.
    pub fn raw(&self, index: u16) -> Result<&'a [u8]> {
        Ok(self.elements::<1>(index)?.1)
    }

    /// The bytes of a text, without its terminator; empty if it is absent.
    #[inline]
    pub fn text(&self, index: u16) -> Result<&'a [u8]> {
        let (at, text) = self.elements::<1>(index)?;
        if at != 0 && self.bytes.get(at + text.len()) != Some(&0) {
            return Err(broken(What::NoTerminator, at + text.len()));
        }
        Ok(text)
    }

    /// The size in bytes of a vector of scalars.
    #[inline]
    pub fn scalars_size<T: Scalar>(&self, index: u16) -> Result<usize> {
        Ok(T::vector(self, index)?.len())
    }

    /// The scalars of a vector; empty if it is absent.
    pub fn scalars<T: Scalar>(&self, index: u16) -> Result<impl ExactSizeIterator<Item = T> + use<'a, T>> {
        Ok(T::numbers(T::vector(self, index)?))
    }

    /// The tables of a vector; empty if it is absent.
    pub fn tables(
        &self,
        index: u16,
    ) -> Result<impl ExactSizeIterator<Item = Result<Table<'a>>> + Clone + use<'a>> {
        let bytes = self.bytes;
        Ok(self.places(index)?.map(move |at| Table::open(bytes, at?)))
    }

    /// The positions of the elements of a vector of tables or texts; none if it is absent.
    pub fn places(
        &self,
        index: u16,
    ) -> Result<impl ExactSizeIterator<Item = Result<usize>> + Clone + use<'a>> {
        let bytes = self.bytes;
        let (first, offsets) = self.elements::<4>(index)?;
        Ok((0..offsets.len() / 4).map(move |i| follow(bytes, first + 4 * i)))
    }

    /// The texts of a vector; empty if it is absent.
    pub fn texts(&self, index: u16) -> Result<Vec<String>> {
        self.places(index)?
            .map(|at| {
                let at = at?;
                let length = u32_at(self.bytes, at)? as usize;
                let text = self.bytes.get(at + 4..at + 4 + length);
                let text = text.ok_or_else(|| broken(What::VectorOutside, at))?;
                Ok(String::from_utf8_lossy(text).into_owned())
            })
            .collect()
    }
}

/// A number as stored in a buffer.
pub(super) trait Scalar: Sized {
    /// The number in a field.
    fn of_field(table: &Table<'_>, index: u16) -> Result<Option<Self>>;

    /// The bytes of a vector of such numbers.
    fn vector<'a>(table: &Table<'a>, index: u16) -> Result<&'a [u8]>;

    /// The numbers in such bytes.
    fn numbers(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + use<'_, Self>;
}

macro_rules! scalars {
    ($($t:ty)+) => {$(
        impl Scalar for $t {
            #[inline(always)]
            fn of_field(table: &Table<'_>, index: u16) -> Result<Option<Self>> {
                Ok(table.field::<{ size_of::<$t>() }, { size_of::<$t>() }>(index)?.map(<$t>::from_le_bytes))
            }

            #[inline(always)]
            fn vector<'a>(table: &Table<'a>, index: u16) -> Result<&'a [u8]> {
                Ok(table.elements::<{ size_of::<$t>() }>(index)?.1)
            }

            #[inline(always)]
            fn numbers(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + use<'_> {
                bytes.as_chunks().0.iter().map(|chunk| <$t>::from_le_bytes(*chunk))
            }
        }
    )+};
}

scalars!(u8 i32 u32 i64 u64 f32 f64);
