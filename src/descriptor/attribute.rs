//! Typed attribute arrays: the only place that reads the values of set calls and writes those of get calls.

use std::ffi::{c_int, c_void};

use super::Descriptor;
use crate::ffi::{
    CEnum, hipdnnBackendAttributeName_t, hipdnnBackendAttributeType_t as Type, hipdnnBackendFlatbufferData_t,
};
use crate::memory::{collect, require};
use crate::status::{Error, Result};

/// More elements than any attribute has: a larger count is a caller's mistake, and we do not allocate for it.
const MAX_COUNT: i64 = 1 << 28;

/// The name of lists in messages about failed allocations.
const THE_VALUES: &str = "the values of an attribute";

fn attribute_name(name: c_int) -> String {
    match hipdnnBackendAttributeName_t::from_raw(name) {
        Some(known) => format!("{} ({name})", known.name()),
        None => format!("attribute {name}"),
    }
}

fn type_name(number: c_int) -> String {
    match Type::from_raw(number) {
        Some(known) => format!("{} ({number})", known.name()),
        None => format!("{number}"),
    }
}

/// The error that a kind of descriptor does not have an attribute, or not for this use.
#[cold]
pub fn unknown(kind: &str, name: c_int, action: &str) -> Error {
    Error::not_supported(format!("attributeName {} cannot be {action} on a {kind}", attribute_name(name)))
}

#[cold]
fn wrong_type(name: c_int, got: c_int, expected: &[Type]) -> Error {
    let expected: Vec<_> = expected.iter().map(|kind| type_name(kind.raw())).collect();
    Error::bad_param(format!(
        "attributeType of {} is {}, expected {}",
        attribute_name(name),
        type_name(got),
        expected.join(" or ")
    ))
}

#[cold]
fn null_array(name: c_int) -> Error {
    Error::null_pointer(format!("arrayOfElements of {} is null", attribute_name(name)))
}

/// A plain value in a caller's array.
///
/// # Safety
/// Every pattern of bytes must be a value of the type.
pub unsafe trait Element: Copy {}

// SAFETY: any bytes are a number.
unsafe impl Element for u8 {}
// SAFETY: any bytes are a number.
unsafe impl Element for i32 {}
// SAFETY: any bytes are a number.
unsafe impl Element for i64 {}
// SAFETY: any bytes are a number.
unsafe impl Element for f32 {}
// SAFETY: any bytes are a number.
unsafe impl Element for f64 {}
// SAFETY: any bytes are a number.
unsafe impl Element for usize {}
// SAFETY: any bytes are an address, valid or not, and a number.
unsafe impl Element for hipdnnBackendFlatbufferData_t {}

/// The values of a set call.
#[derive(Clone, Copy)]
pub struct Incoming {
    name: c_int,
    kind: c_int,
    count: i64,
    array: *const c_void,
}

impl Incoming {
    /// The arguments as the caller passed them.
    ///
    /// # Safety
    /// `array` is null or readable for `count` elements of the type `kind`.
    pub unsafe fn new(name: c_int, kind: c_int, count: i64, array: *const c_void) -> Self {
        Self { name, kind, count, array }
    }

    /// The attribute's number.
    #[inline]
    pub fn name(&self) -> c_int {
        self.name
    }

    /// The type that the caller named.
    #[inline]
    pub fn kind(&self) -> c_int {
        self.kind
    }

    /// The number of elements that the caller named.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Fails when the array is null.
    #[inline]
    pub fn require_array(&self) -> Result<()> {
        if self.array.is_null() { Err(null_array(self.name)) } else { Ok(()) }
    }

    /// Fails when the caller passed another type.
    #[inline]
    pub fn require_type(&self, expected: Type) -> Result<()> {
        if self.kind != expected as c_int {
            return Err(wrong_type(self.name, self.kind, &[expected]));
        }
        Ok(())
    }

    /// Exactly one value.
    #[inline]
    pub fn one<T: Element>(&self, expected: Type) -> Result<T> {
        self.require_type(expected)?;
        if self.count != 1 {
            return Err(self.wrong_count("1"));
        }
        self.require_array()?;
        // SAFETY: the array is readable for one element, which may be unaligned.
        Ok(unsafe { self.array.cast::<T>().read_unaligned() })
    }

    /// Exactly one truth value.
    pub fn flag(&self) -> Result<bool> {
        Ok(self.one::<u8>(Type::HIPDNN_TYPE_BOOLEAN)? != 0)
    }

    /// Zero or more values, read one by one.
    #[inline]
    pub fn array<T: Element>(&self, expected: Type) -> Result<impl ExactSizeIterator<Item = T> + use<T>> {
        self.require_type(expected)?;
        if !(0..=MAX_COUNT).contains(&self.count) {
            return Err(self.wrong_count("a number of elements that is not negative"));
        }
        if self.count > 0 {
            self.require_array()?;
        }
        let array = self.array.cast::<T>();
        // SAFETY: the array is readable for `count` elements, which may be unaligned.
        Ok((0..self.count as usize).map(move |i| unsafe { array.add(i).read_unaligned() }))
    }

    /// One value or more.
    pub fn some<T: Element>(&self, expected: Type) -> Result<Vec<T>> {
        self.require_type(expected)?;
        if self.count == 0 {
            return Err(self.wrong_count("1 or more"));
        }
        collect(THE_VALUES, self.array(expected)?)
    }

    /// A text that ends at the count, or at an earlier NUL.
    pub fn text(&self) -> Result<String> {
        let bytes = self.bytes()?;
        // Each invalid byte becomes a replacement character of three bytes.
        require("a text", bytes.len().saturating_mul(4))?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Raw bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.require_type(Type::HIPDNN_TYPE_CHAR)?;
        self.require_array()?;
        collect(THE_VALUES, self.array(Type::HIPDNN_TYPE_CHAR)?)
    }

    /// Exactly one descriptor, passed to `take`.
    pub fn descriptor<T>(&self, take: impl FnOnce(&Descriptor) -> Result<T>) -> Result<T> {
        let handle = self.one::<usize>(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
        self.child(handle, take)
    }

    /// One descriptor or more.
    pub fn descriptors<T>(&self, take: impl Fn(&Descriptor) -> Result<T>) -> Result<Vec<T>> {
        let handles = self.some::<usize>(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
        require(THE_VALUES, handles.len().saturating_mul(2 * size_of::<T>()))?;
        handles.into_iter().map(|handle| self.child(handle, &take)).collect()
    }

    fn child<T>(&self, handle: usize, take: impl FnOnce(&Descriptor) -> Result<T>) -> Result<T> {
        Descriptor::with(handle, take).map_err(|error| self.about(error))
    }

    /// Puts the attribute's name before a message.
    #[cold]
    pub fn about(&self, error: Error) -> Error {
        Error::new(error.status, format!("{}: {}", attribute_name(self.name), error.message))
    }

    /// The error for an unexpected type.
    #[cold]
    pub fn wrong_type(&self, expected: &[Type]) -> Error {
        wrong_type(self.name, self.kind, expected)
    }

    /// The error for an unexpected number of elements.
    #[cold]
    pub fn wrong_count(&self, expected: &str) -> Error {
        Error::bad_param(format!(
            "elementCount of {} is {}, expected {expected}",
            attribute_name(self.name),
            self.count
        ))
    }

    /// The error for an invalid value.
    #[cold]
    pub fn bad_value(&self, got: impl std::fmt::Display, expected: &str) -> Error {
        Error::bad_param(format!("{} is {got}, expected {expected}", attribute_name(self.name)))
    }
}

/// The destination of a get call's values.
#[derive(Clone, Copy)]
pub struct Outgoing {
    name: c_int,
    kind: c_int,
    requested: i64,
    count: *mut i64,
    array: *mut c_void,
}

impl Outgoing {
    /// The arguments as the caller passed them.
    ///
    /// # Safety
    /// `array` is null or writable, and for descriptors readable, for `requested` elements of the type `kind`; `count` is
    /// null or writable.
    pub unsafe fn new(name: c_int, kind: c_int, requested: i64, count: *mut i64, array: *mut c_void) -> Self {
        Self { name, kind, requested, count, array }
    }

    /// The attribute's number.
    pub fn name(&self) -> c_int {
        self.name
    }

    /// The type that the caller named.
    pub fn kind(&self) -> c_int {
        self.kind
    }

    /// The number of elements that the caller has room for.
    pub fn requested(&self) -> i64 {
        self.requested
    }

    /// Fails when the caller passed another type.
    pub fn require_type(&self, expected: Type) -> Result<()> {
        if self.kind != expected as c_int {
            return Err(wrong_type(self.name, self.kind, &[expected]));
        }
        Ok(())
    }

    /// Fails when the array is null.
    pub fn require_array(&self) -> Result<()> {
        if self.array.is_null() { Err(null_array(self.name)) } else { Ok(()) }
    }

    /// Fails when the pointer for the number of elements is null.
    pub fn require_count(&self) -> Result<()> {
        if self.count.is_null() {
            return Err(Error::null_pointer(format!(
                "elementCount of {} is null",
                attribute_name(self.name)
            )));
        }
        Ok(())
    }

    fn require_exactly_one(&self, expected: Type) -> Result<()> {
        self.require_type(expected)?;
        if self.requested != 1 {
            return Err(self.wrong_count("1"));
        }
        self.require_array()
    }

    /// Writes the number of elements, unless the caller's pointer is null.
    pub fn write_count(&self, count: i64) {
        if !self.count.is_null() {
            // SAFETY: the count is not null here, and `new` requires that it is writable otherwise.
            unsafe { self.count.write_unaligned(count) };
        }
    }

    fn write_elements<T: Element>(&self, values: &[T]) {
        let to = self.array.cast::<T>();
        for (i, value) in values.iter().enumerate() {
            // SAFETY: callers pass no more values than were requested.
            unsafe { to.add(i).write_unaligned(*value) };
        }
    }

    /// One value; the caller must request exactly one.
    pub fn exactly_one<T: Element>(&self, expected: Type, value: T) -> Result<()> {
        self.require_exactly_one(expected)?;
        self.write_elements(&[value]);
        self.write_count(1);
        Ok(())
    }

    /// One new descriptor; the caller must request exactly one.
    pub fn exactly_one_descriptor(&self, make: impl FnOnce() -> Descriptor) -> Result<()> {
        self.require_exactly_one(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
        self.exactly_one(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR, make().enter()?)
    }

    /// Whether the caller only asks for the number of elements; if so, writes it.
    fn is_size_query(&self, expected: Type, size: usize) -> Result<bool> {
        self.require_type(expected)?;
        if self.requested < 0 {
            return Err(self.wrong_count("a number of elements that is not negative"));
        }
        if self.requested > 0 {
            self.require_array()?;
            return Ok(false);
        }
        self.require_count()?;
        self.write_count(size as i64);
        Ok(true)
    }

    /// All values, or as many as the caller has room for.
    pub fn many<T: Element>(&self, expected: Type, values: &[T]) -> Result<()> {
        if self.is_size_query(expected, values.len())? {
            return Ok(());
        }
        let values = values.get(..self.requested as usize).unwrap_or(values);
        self.write_elements(values);
        self.write_count(values.len() as i64);
        Ok(())
    }

    /// Fails if the caller requests values without room for all of them.
    fn require_room(&self, size: usize) -> Result<()> {
        if !self.array.is_null() && (1..size as i64).contains(&self.requested) {
            return Err(self.wrong_count(&format!("at least {size}")));
        }
        Ok(())
    }

    /// All values; the caller must have room for them.
    pub fn all<T: Element>(&self, expected: Type, values: &[T]) -> Result<()> {
        self.require_type(expected)?;
        self.require_room(values.len())?;
        self.many(expected, values)
    }

    /// New descriptors, owned by the caller, who must have room for all.
    pub fn all_descriptors(&self, total: usize, make: impl Fn(usize) -> Option<Descriptor>) -> Result<()> {
        self.require_type(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
        self.require_room(total)?;
        self.descriptors(total, make)
    }

    /// One value. A call without an array asks for the number of elements.
    pub fn one<T: Element>(&self, expected: Type, value: T) -> Result<()> {
        self.or_size_query().many(expected, &[value])
    }

    /// The same call, turned into a size query if the array is null.
    fn or_size_query(&self) -> Self {
        let requested = if self.array.is_null() { self.requested.min(0) } else { self.requested };
        Self { requested, ..*self }
    }

    /// One value, or none if it was never set.
    pub fn optional<T: Element>(&self, expected: Type, value: Option<T>) -> Result<()> {
        match value {
            Some(value) => self.one(expected, value),
            None => self.none(expected),
        }
    }

    /// Zero elements; the caller's array stays as it is.
    pub fn none(&self, expected: Type) -> Result<()> {
        self.require_type(expected)?;
        // Without the count, the caller could not tell that there is no value.
        if matches!(expected, Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR | Type::HIPDNN_TYPE_DATA_TYPE) {
            self.require_count()?;
        }
        self.write_count(0);
        Ok(())
    }

    /// A text with its NUL, cut to the caller's room.
    pub fn text(&self, text: &str) -> Result<()> {
        let size = text.len() + 1;
        if self.is_size_query(Type::HIPDNN_TYPE_CHAR, size)? {
            return Ok(());
        }
        let room = (self.requested as usize).min(size);
        self.write_elements(text.as_bytes().get(..room - 1).unwrap_or_default());
        // SAFETY: `room` is at most the number of bytes requested and at least 1.
        unsafe { self.array.cast::<u8>().add(room - 1).write(0) };
        self.write_count(room as i64);
        Ok(())
    }

    /// New descriptors, owned by the caller.
    pub fn descriptors(&self, total: usize, make: impl Fn(usize) -> Option<Descriptor>) -> Result<()> {
        if self.is_size_query(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR, total)? {
            return Ok(());
        }
        let room = (self.requested as usize).min(total);
        let handles = (0..room).filter_map(make).map(Descriptor::enter).collect::<Result<Vec<usize>>>()?;
        self.write_elements(&handles);
        self.write_count(handles.len() as i64);
        Ok(())
    }

    /// One new descriptor, or none.
    pub fn optional_descriptor(&self, make: Option<impl Fn() -> Option<Descriptor>>) -> Result<()> {
        match make {
            Some(make) => self.or_size_query().descriptors(1, |_| make()),
            None => self.none(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR),
        }
    }

    /// The caller's descriptor handle at `index`, which is below the number requested.
    pub fn descriptor_at(&self, index: usize) -> usize {
        // SAFETY: the array is readable for `requested` descriptors.
        unsafe { self.array.cast::<usize>().add(index).read_unaligned() }
    }

    /// Puts the attribute's name before a message.
    #[cold]
    pub fn about(&self, error: Error) -> Error {
        Error::new(error.status, format!("{}: {}", attribute_name(self.name), error.message))
    }

    /// The error for an unexpected requested number.
    #[cold]
    pub fn wrong_count(&self, expected: &str) -> Error {
        Error::bad_param(format!(
            "requestedElementCount of {} is {}, expected {expected}",
            attribute_name(self.name),
            self.requested
        ))
    }
}
