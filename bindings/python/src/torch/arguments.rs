//! The arguments of a call, read from PyTorch's stack without consuming them, and encoded as the words that key plans.

use std::ffi::{CStr, c_void};

use super::functions::{Functions, RawTensor};

/// The kind of an argument, by the operation's schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Tensor,
    OptionalTensor,
    /// A tensor that may be undefined.
    MaybeTensor,
    /// A tensor that plans do not depend on.
    UnusedTensor,
    Int,
    OptionalInt,
    Ints,
    OptionalInts,
    Float,
    OptionalFloat,
    /// A float that host plans do not depend on.
    Momentum,
    Bool,
    Bools,
    Text,
}

impl Kind {
    /// Whether the value is null, or a pointer to the value.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::OptionalTensor | Self::OptionalInt | Self::OptionalInts | Self::OptionalFloat)
    }
}

/// PyTorch's types, by number.
pub mod dtype {
    pub const INT32: i32 = 3;
    pub const INT64: i32 = 4;
    pub const HALF: i32 = 5;
    pub const FLOAT: i32 = 6;
    pub const DOUBLE: i32 = 7;
    pub const BFLOAT16: i32 = 15;
}

/// PyTorch's devices, by number.
pub const CPU: i32 = 0;
pub const CUDA: i32 = 1;

/// The alignment that plans assume; less aligned tensors get a plan of their own.
pub const ALIGNMENT: usize = 16;

/// A tensor of a call.
#[derive(Clone, Copy)]
pub struct Argument {
    pub handle: RawTensor,
    pub data: *mut c_void,
}

/// An argument, decoded for planning.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    None,
    Tensor(TensorValue),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Text(String),
}

/// A tensor, decoded for planning.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorValue {
    /// Its index among the call's tensors.
    pub at: usize,
    pub dtype: i32,
    pub device: (i32, i32),
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub is_aligned: bool,
}

/// Tags of the words.
const NONE: i64 = 0;
const TENSOR: i64 = 1;
const INT: i64 = 2;
const INTS: i64 = 3;
const FLOAT: i64 = 4;
const TEXT: i64 = 5;

/// The arguments read from a call. Reused for the thread's next call.
#[derive(Default)]
pub struct Arguments {
    pub words: Vec<i64>,
    pub tensors: Vec<Argument>,
    /// The device of all tensors.
    pub device: Option<(i32, i32)>,
    pub momentum: f64,
}

impl Arguments {
    /// Reads a call; false if no plan can support it. Consumes nothing from the stack.
    ///
    /// # Safety
    /// `stack` is readable for a value of each of `kinds`, whose objects are alive.
    pub unsafe fn read(&mut self, f: &Functions, stack: *const u64, kinds: &[Kind]) -> bool {
        self.words.clear();
        self.tensors.clear();
        self.device = None;
        kinds.iter().enumerate().all(|(at, kind)| {
            // SAFETY: the stack has a value of this kind here, as this function requires.
            unsafe { self.add(f, stack.add(at).read(), *kind) }
        }) && self.device.is_some()
    }

    /// # Safety
    /// The value is one of PyTorch's stable calls of this kind, whose object is alive.
    unsafe fn add(&mut self, f: &Functions, value: u64, kind: Kind) -> bool {
        let inner = match kind {
            _ if kind.is_optional() => {
                if value == 0 {
                    self.words.push(NONE);
                    return true;
                }
                // SAFETY: a non-null optional points to the value.
                unsafe { pointer::<u64>(value).read() }
            }
            _ => value,
        };
        match kind {
            // SAFETY: the value is a tensor's handle.
            Kind::Tensor => unsafe { self.add_tensor(f, pointer(inner)) },
            Kind::UnusedTensor => {
                self.words.push(NONE);
                true
            }
            // SAFETY: the value is a tensor's handle. An absent tensor may be an undefined one.
            Kind::OptionalTensor | Kind::MaybeTensor => unsafe {
                let mut defined = true;
                if (f.is_defined)(pointer(inner), &raw mut defined) == 0 && !defined {
                    self.words.push(NONE);
                    return true;
                }
                self.add_tensor(f, pointer(inner))
            },
            Kind::Int | Kind::OptionalInt => self.push(INT, inner.cast_signed()),
            Kind::Float | Kind::OptionalFloat => self.push(FLOAT, inner.cast_signed()),
            Kind::Momentum => {
                self.momentum = f64::from_bits(inner);
                // A schedule of momenta would need as many plans.
                let is_host = self.device.is_some_and(|device| device.0 == CPU);
                self.push(FLOAT, if is_host { 0 } else { inner.cast_signed() })
            }
            Kind::Bool => self.push(INT, i64::from(inner & 0xff != 0)),
            // SAFETY: the value is a list's handle.
            Kind::Ints | Kind::OptionalInts => unsafe { self.add_list(f, pointer(inner), u64::MAX) },
            // SAFETY: the value is the handle of a list, whose booleans are the lowest bytes of its items.
            Kind::Bools => unsafe { self.add_list(f, pointer(inner), 0xff) },
            // SAFETY: the value is a string's handle.
            Kind::Text => unsafe { self.add_text(f, pointer(inner)) },
        }
    }

    fn push(&mut self, tag: i64, word: i64) -> bool {
        self.words.extend([tag, word]);
        true
    }

    /// # Safety
    /// `list` is the handle of a list of numbers that is alive.
    unsafe fn add_list(&mut self, f: &Functions, list: *mut c_void, mask: u64) -> bool {
        let mut size = 0;
        // SAFETY: this function requires a list's handle, and the function writes only to the local `size`.
        if unsafe { (f.list_size)(list, &raw mut size) } != 0 {
            return false;
        }
        self.words.extend([INTS, size as i64]);
        for at in 0..size {
            let mut item = 0;
            // SAFETY: the list has this many items, which are numbers.
            if unsafe { (f.list_item)(list, at, &raw mut item) } != 0 {
                return false;
            }
            self.words.push((item & mask).cast_signed());
        }
        true
    }

    /// # Safety
    /// `text` is the handle of a string that is alive.
    unsafe fn add_text(&mut self, f: &Functions, text: *mut c_void) -> bool {
        let mut start = std::ptr::null();
        // SAFETY: this function requires a string's handle, and the function writes only to the local `start`.
        if unsafe { (f.text)(text, &raw mut start) } != 0 || start.is_null() {
            return false;
        }
        // SAFETY: C++ strings end with a NUL.
        let bytes = unsafe { CStr::from_ptr(start) }.to_bytes();
        self.words.extend([TEXT, bytes.len() as i64]);
        self.words.extend(bytes.iter().map(|byte| i64::from(*byte)));
        true
    }

    /// # Safety
    /// `handle` is that of a tensor that is alive.
    unsafe fn add_tensor(&mut self, f: &Functions, handle: RawTensor) -> bool {
        let (mut defined, mut layout, mut kind, mut index) = (false, -1, -1, -1);
        // SAFETY: the tensor is alive, and the outputs valid. An undefined tensor is not queried further.
        let is_plain = unsafe {
            (f.is_defined)(handle, &raw mut defined) == 0
                && defined
                && (f.layout)(handle, &raw mut layout) == 0
                && layout == (f.strided)()
                && (f.device_type)(handle, &raw mut kind) == 0
                && (kind == CPU || kind == CUDA)
                && (f.device_index)(handle, &raw mut index) == 0
        };
        let device = (kind, if kind == CPU { 0 } else { index });
        if !is_plain || *self.device.get_or_insert(device) != device {
            return false;
        }
        let (mut dtype, mut rank, mut data) = (-1, 0, std::ptr::null_mut());
        let (mut sizes, mut strides) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the tensor is on a CPU or GPU with a strided layout, and the functions write only to the locals `dtype`, `rank`,
        // `sizes`, `strides` and `data`.
        let is_read = unsafe {
            (f.dtype)(handle, &raw mut dtype) == 0
                && (f.rank)(handle, &raw mut rank) == 0
                && (f.sizes)(handle, &raw mut sizes) == 0
                && (f.strides)(handle, &raw mut strides) == 0
                && (f.data)(handle, &raw mut data) == 0
        };
        // Freed storage has no address; a tensor without elements needs none, and gets no plan.
        if !is_read || data.addr() < 1 << 16 {
            return false;
        }
        let rank = usize::try_from(rank).unwrap_or(0);
        let is_aligned = data.addr().is_multiple_of(ALIGNMENT);
        self.words.extend([TENSOR, i64::from(dtype) << 32 | i64::from(is_aligned) << 16 | rank as i64]);
        if rank > 0 {
            // SAFETY: PyTorch stores one size and stride per dimension.
            let (sizes, strides) = unsafe {
                (std::slice::from_raw_parts(sizes, rank), std::slice::from_raw_parts(strides, rank))
            };
            self.words.extend_from_slice(sizes);
            self.words.extend_from_slice(strides);
        }
        self.tensors.push(Argument { handle, data });
        true
    }

    /// Decodes the words.
    pub fn values(&self) -> Vec<Value> {
        let device = self.device.unwrap_or_default();
        let mut words = self.words.iter().copied();
        let (mut values, mut at) = (Vec::new(), 0);
        while let Some(tag) = words.next() {
            let mut take = |count: i64| words.by_ref().take(usize::try_from(count).unwrap_or(0)).collect();
            values.push(match tag {
                NONE => Value::None,
                TENSOR => {
                    let of = words.next().unwrap_or_default();
                    let mut take =
                        |count: i64| words.by_ref().take(usize::try_from(count).unwrap_or(0)).collect();
                    let (rank, is_aligned) = (of & 0xffff, of >> 16 & 1 != 0);
                    let (dims, strides) = (take(rank), take(rank));
                    at += 1;
                    let dtype = (of >> 32) as i32;
                    Value::Tensor(TensorValue { at: at - 1, dtype, device, dims, strides, is_aligned })
                }
                INTS => {
                    let count = words.next().unwrap_or_default();
                    Value::Ints(words.by_ref().take(usize::try_from(count).unwrap_or(0)).collect())
                }
                TEXT => {
                    let count = words.next().unwrap_or_default();
                    let bytes = words.by_ref().take(usize::try_from(count).unwrap_or(0));
                    Value::Text(bytes.map(|byte| char::from(byte as u8)).collect())
                }
                FLOAT => Value::Float(f64::from_bits(words.next().unwrap_or_default().cast_unsigned())),
                _ => {
                    let one: Vec<i64> = take(1);
                    Value::Int(one.first().copied().unwrap_or_default())
                }
            });
        }
        values
    }
}

/// The pointer in a value of the stack.
pub fn pointer<T>(value: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(value as usize)
}

/// Frees a call's arguments, which its kernel owns.
///
/// # Safety
/// The stack has a value of each kind, no longer used. The tensor at `kept` stays.
pub unsafe fn free(f: &Functions, stack: *const u64, kinds: &[Kind], kept: Option<usize>) {
    for (at, kind) in kinds.iter().enumerate().filter(|(at, _)| Some(*at) != kept) {
        // SAFETY: the stack has a value of this kind here, as this function requires. A failure cannot be handled.
        unsafe { free_one(f, stack.add(at).read(), *kind) };
    }
}

/// # Safety
/// The value is of the kind, and no longer used.
unsafe fn free_one(f: &Functions, value: u64, kind: Kind) {
    let is_optional = kind.is_optional();
    if is_optional && value == 0 {
        return;
    }
    // SAFETY: a non-null optional points to the value, and the kernel owns both.
    unsafe {
        let inner = if is_optional { pointer::<u64>(value).read() } else { value };
        let _ = match kind {
            Kind::Tensor | Kind::OptionalTensor | Kind::MaybeTensor | Kind::UnusedTensor => {
                (f.delete_tensor)(pointer(inner))
            }
            Kind::Ints | Kind::OptionalInts | Kind::Bools => (f.delete_list)(pointer(inner)),
            Kind::Text => (f.delete_text)(pointer(inner)),
            _ => 0,
        };
        match f.delete_value {
            Some(delete) if is_optional => drop(delete(pointer(value))),
            None if is_optional => (f.delete)(pointer(value)),
            _ => {}
        }
    }
}
