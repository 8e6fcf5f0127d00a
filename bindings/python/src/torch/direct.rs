//! Calls PyTorch's operations through functions exported by its C++ library: faster than the stable C interface, which looks up a name
//! and converts each value, and with PyTorch's own error types, which that interface merges into one. If a PyTorch version names a
//! function differently, because its arguments differ, or lays out a type in another way (`layouts`), the stable interface is used.
//!
//! The types follow the x86-64 C++ ABI with libstdc++: a tensor is a pointer, a tuple is stored in reverse.

use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;

use hipdnn_plugin_sdk::os::library::{self, Library};

use super::arguments::{dtype, pointer};
use super::functions::{Array, Functions, RawTensor};

/// The most results of an operation.
pub const RESULTS: usize = 3;

/// A function, and its typed caller.
#[derive(Clone, Copy)]
pub struct Direct {
    symbol: *const c_void,
    pub results: usize,
    /// The argument that is the result, if nothing else is returned.
    pub same: Option<usize>,
    call: unsafe fn(&Functions, *const c_void, *const u64, *mut [*mut c_void; RESULTS]) -> bool,
}

// SAFETY: the symbol is a function's address.
unsafe impl Send for Direct {}
// SAFETY: as an address, it does not change.
unsafe impl Sync for Direct {}

impl Direct {
    /// Calls the function with the values of a stack, which the caller still owns. None if a value cannot be read.
    ///
    /// # Safety
    /// `stack` has a value of each of the operation's arguments, whose objects are alive.
    pub unsafe fn call(&self, f: &Functions, stack: *const u64) -> Option<[*mut c_void; RESULTS]> {
        let mut results = [std::ptr::null_mut(); RESULTS];
        // SAFETY: the symbol's name determines its type, and the stack has its arguments, as this function requires.
        let is_called = unsafe { (self.call)(f, self.symbol, stack, &raw mut results) };
        results.get_mut(..self.results)?.reverse();
        is_called.then_some(results)
    }
}

/// An argument, held while the function runs.
trait Pass: Sized {
    /// How it is passed.
    type Raw;

    /// # Safety
    /// The value is from the stack, of this kind.
    unsafe fn hold(f: &Functions, value: u64) -> Option<Self>;

    fn raw(&self) -> Self::Raw;
}

struct Tensor(RawTensor);

impl Pass for Tensor {
    type Raw = RawTensor;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        Some(Self(pointer(value)))
    }

    fn raw(&self) -> RawTensor {
        self.0
    }
}

/// `std::optional` of a tensor, borrowed: its reference count is unchanged.
#[repr(C)]
struct MaybeTensor {
    tensor: *mut c_void,
    is_there: bool,
}

impl Pass for MaybeTensor {
    type Raw = *const Self;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        if value == 0 {
            return Some(Self { tensor: std::ptr::null_mut(), is_there: false });
        }
        // SAFETY: a non-null optional points to a handle, which points to a tensor: one pointer.
        let tensor = unsafe { pointer::<*mut c_void>(pointer::<u64>(value).read()).read() };
        Some(Self { tensor, is_there: true })
    }

    fn raw(&self) -> *const Self {
        self
    }
}

struct Ints(Vec<i64>);

impl Ints {
    /// # Safety
    /// `list` is the handle of a list of numbers that is alive.
    unsafe fn of_list(f: &Functions, list: *mut c_void) -> Option<Self> {
        let mut size = 0;
        // SAFETY: this function requires a list's handle, and the function writes only to the local `size`.
        if unsafe { (f.list_size)(list, &raw mut size) } != 0 {
            return None;
        }
        let mut numbers = Vec::with_capacity(size);
        for at in 0..size {
            let mut item = 0;
            // SAFETY: the list has this many items.
            if unsafe { (f.list_item)(list, at, &raw mut item) } != 0 {
                return None;
            }
            numbers.push(item.cast_signed());
        }
        Some(Self(numbers))
    }
}

impl Pass for Ints {
    type Raw = Array;

    unsafe fn hold(f: &Functions, value: u64) -> Option<Self> {
        // SAFETY: the value is a list's handle.
        unsafe { Self::of_list(f, pointer(value)) }
    }

    fn raw(&self) -> Array {
        Array { data: self.0.as_ptr(), size: self.0.len() }
    }
}

/// `c10::OptionalArrayRef`.
#[repr(C)]
struct MaybeArray {
    array: Array,
    is_there: bool,
}

struct MaybeInts(Option<Ints>);

impl Pass for MaybeInts {
    type Raw = MaybeArray;

    unsafe fn hold(f: &Functions, value: u64) -> Option<Self> {
        if value == 0 {
            return Some(Self(None));
        }
        // SAFETY: a non-null optional points to a list's handle.
        unsafe { Ints::hold(f, pointer::<u64>(value).read()) }.map(|ints| Self(Some(ints)))
    }

    fn raw(&self) -> MaybeArray {
        let array = self.0.as_ref().map_or(Array { data: std::ptr::null(), size: 0 }, Ints::raw);
        MaybeArray { array, is_there: self.0.is_some() }
    }
}

/// `c10::SymInt` of a non-negative number, which has the number's bits.
struct SymInt(i64);

impl Pass for SymInt {
    type Raw = *const i64;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        let number = value.cast_signed();
        (number >= 0).then_some(Self(number))
    }

    fn raw(&self) -> *const i64 {
        &raw const self.0
    }
}

/// A list of these.
struct SymInts(Ints);

impl Pass for SymInts {
    type Raw = Array;

    unsafe fn hold(f: &Functions, value: u64) -> Option<Self> {
        // SAFETY: the value is a list's handle.
        let ints = unsafe { Ints::hold(f, value) }?;
        ints.0.iter().all(|number| *number >= 0).then_some(Self(ints))
    }

    fn raw(&self) -> Array {
        self.0.raw()
    }
}

/// `std::array` of booleans.
#[derive(Clone, Copy)]
#[repr(C)]
struct Flags<const N: usize>([bool; N]);

impl<const N: usize> Pass for Flags<N> {
    type Raw = Self;

    unsafe fn hold(f: &Functions, value: u64) -> Option<Self> {
        // SAFETY: the value is a list's handle.
        let Ints(numbers) = unsafe { Ints::hold(f, value) }?;
        let flags: Vec<bool> = numbers.iter().map(|number| number & 0xff != 0).collect();
        flags.try_into().ok().map(Self)
    }

    fn raw(&self) -> Self {
        *self
    }
}

struct Flag(bool);

impl Pass for Flag {
    type Raw = bool;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        Some(Self(value & 0xff != 0))
    }

    fn raw(&self) -> bool {
        self.0
    }
}

struct Int(i64);

impl Pass for Int {
    type Raw = i64;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        Some(Self(value.cast_signed()))
    }

    fn raw(&self) -> i64 {
        self.0
    }
}

/// `c10::ScalarType`, for the types that have the same numbers in the stable interface.
struct Dtype(i8);

impl Pass for Dtype {
    type Raw = i8;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        let number = i8::try_from(value & 0xffff_ffff).ok()?;
        (i32::from(number) <= dtype::BFLOAT16).then_some(Self(number))
    }

    fn raw(&self) -> i8 {
        self.0
    }
}

/// `std::optional` of a number.
#[derive(Clone, Copy)]
#[repr(C)]
struct MaybeFloat {
    number: f64,
    is_there: bool,
}

impl Pass for MaybeFloat {
    type Raw = Self;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        if value == 0 {
            return Some(Self { number: 0.0, is_there: false });
        }
        // SAFETY: a non-null optional points to the number's bits.
        Some(Self { number: f64::from_bits(unsafe { pointer::<u64>(value).read() }), is_there: true })
    }

    fn raw(&self) -> Self {
        *self
    }
}

/// `std::optional` of an integer.
#[derive(Clone, Copy)]
#[repr(C)]
struct MaybeInt {
    number: i64,
    is_there: bool,
}

impl Pass for MaybeInt {
    type Raw = Self;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        if value == 0 {
            return Some(Self { number: 0, is_there: false });
        }
        // SAFETY: a non-null optional points to the number.
        Some(Self { number: unsafe { pointer::<u64>(value).read() }.cast_signed(), is_there: true })
    }

    fn raw(&self) -> Self {
        *self
    }
}

struct Float(f64);

impl Pass for Float {
    type Raw = f64;

    unsafe fn hold(_: &Functions, value: u64) -> Option<Self> {
        Some(Self(f64::from_bits(value)))
    }

    fn raw(&self) -> f64 {
        self.0
    }
}

/// `std::string_view`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Text {
    size: usize,
    data: *const c_char,
}

impl Pass for Text {
    type Raw = Self;

    unsafe fn hold(f: &Functions, value: u64) -> Option<Self> {
        let mut data = std::ptr::null();
        // SAFETY: the value is a string's handle, and the output valid.
        if unsafe { (f.text)(pointer(value), &raw mut data) } != 0 || data.is_null() {
            return None;
        }
        // SAFETY: C++ strings end with a NUL, and this one lives as long as the stack has it.
        Some(Self { size: unsafe { CStr::from_ptr(data) }.count_bytes(), data })
    }

    fn raw(&self) -> Self {
        *self
    }
}

// libstdc++ puts the flag of an optional behind its value, and a view's length before its address; `layouts` checks PyTorch's own types.
const _: () = {
    assert!(size_of::<MaybeTensor>() == 16 && offset_of!(MaybeTensor, is_there) == 8);
    assert!(size_of::<Array>() == 16 && offset_of!(Array, size) == 8);
    assert!(size_of::<MaybeArray>() == 24 && offset_of!(MaybeArray, is_there) == 16);
    assert!(size_of::<MaybeFloat>() == 16 && offset_of!(MaybeFloat, is_there) == 8);
    assert!(size_of::<MaybeInt>() == 16 && offset_of!(MaybeInt, is_there) == 8);
    assert!(size_of::<Text>() == 16 && offset_of!(Text, data) == 8);
    assert!(size_of::<Flags<3>>() == 3 && align_of::<Flags<3>>() == 1);
};

/// Declares functions: the operation, the symbol, number of results or the argument that is the result, arguments.
macro_rules! direct {
    (
        new { $($operation:literal = $symbol:literal -> $results:literal ($($name:ident: $kind:ty),*);)* }
        same { $($of:literal = $out_symbol:literal -> $same:literal ($($out_name:ident: $out_kind:ty),*);)* }
    ) => {
        /// The function of an operation, if this PyTorch exports it.
        fn find(operation: &CStr, library: &Library) -> Option<Direct> {
            $(if operation == $operation {
                /// # Safety
                /// `symbol` is the function of this declaration, `stack` has a value of each of its kinds, in this order, and
                /// `results` is writable.
                unsafe fn call(
                    f: &Functions, symbol: *const c_void, stack: *const u64, results: *mut [*mut c_void; RESULTS],
                ) -> bool {
                    let mut values = stack;
                    // SAFETY: the stack has a value of each kind, in this order.
                    $(let Some($name) = (unsafe {
                        let value = values.read();
                        values = values.add(1);
                        <$kind as Pass>::hold(f, value)
                    }) else { return false };)*
                    let _ = values;
                    type Function = unsafe extern "C-unwind" fn(*mut [*mut c_void; RESULTS], $(<$kind as Pass>::Raw),*);
                    // SAFETY: the symbol's name determines these types. The result is not trivial, so its address is the first argument.
                    unsafe { std::mem::transmute::<*const c_void, Function>(symbol)(results, $($name.raw()),*) };
                    true
                }
                // SAFETY: only the address is taken.
                let symbol = unsafe { library.get::<*const c_void>($symbol) }.ok()?;
                return Some(Direct { symbol: symbol.as_raw_ptr(), results: $results, same: None, call });
            })*
            $(if operation == $of {
                /// # Safety
                /// `symbol` is the function of this declaration, `stack` has a value of each of its kinds, in this order, and
                /// `results` is writable.
                unsafe fn call(
                    f: &Functions, symbol: *const c_void, stack: *const u64, _: *mut [*mut c_void; RESULTS],
                ) -> bool {
                    let mut values = stack;
                    // SAFETY: the stack has a value of each kind, in this order.
                    $(let Some($out_name) = (unsafe {
                        let value = values.read();
                        values = values.add(1);
                        <$out_kind as Pass>::hold(f, value)
                    }) else { return false };)*
                    let _ = values;
                    type Function = unsafe extern "C-unwind" fn($(<$out_kind as Pass>::Raw),*) -> RawTensor;
                    // SAFETY: the symbol's name determines these types; the returned reference is that of an argument.
                    unsafe { std::mem::transmute::<*const c_void, Function>(symbol)($($out_name.raw()),*) };
                    true
                }
                // SAFETY: only the address is taken.
                let symbol = unsafe { library.get::<*const c_void>($out_symbol) }.ok()?;
                return Some(Direct { symbol: symbol.as_raw_ptr(), results: 0, same: Some($same), call });
            })*
            None
        }
    };
}

direct! {
new {
    c"aten::convolution" =
        b"_ZN2at4_ops11convolution4callERKNS_6TensorES4_RKSt8optionalIS2_EN3c108ArrayRefINS9_6SymIntEEESC_SC_bSC_SB_\0"
        -> 1 (a: Tensor, b: Tensor, c: MaybeTensor, d: SymInts, e: SymInts, g: SymInts, h: Flag, i: SymInts, j: SymInt);
    c"aten::convolution_backward" =
        b"_ZN2at4_ops20convolution_backward4callERKNS_6TensorES4_S4_N3c1016OptionalArrayRefINS5_6SymIntEEENS5_8ArrayRefIS7_EESA_SA_bSA_S7_St5arrayIbLm3EE\0"
        -> 3 (a: Tensor, b: Tensor, c: Tensor, d: MaybeInts, e: SymInts, g: SymInts, h: SymInts, i: Flag, j: SymInts, k: SymInt, l: Flags<3>);
    c"aten::mm" = b"_ZN2at4_ops2mm4callERKNS_6TensorES4_\0" -> 1 (a: Tensor, b: Tensor);
    c"aten::bmm" = b"_ZN2at4_ops3bmm4callERKNS_6TensorES4_\0" -> 1 (a: Tensor, b: Tensor);
    c"aten::native_layer_norm" =
        b"_ZN2at4_ops17native_layer_norm4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEERKSt8optionalIS2_ESC_d\0"
        -> 3 (a: Tensor, b: SymInts, c: MaybeTensor, d: MaybeTensor, e: Float);
    c"aten::native_layer_norm_backward" =
        b"_ZN2at4_ops26native_layer_norm_backward4callERKNS_6TensorES4_N3c108ArrayRefINS5_6SymIntEEES4_S4_RKSt8optionalIS2_ESC_St5arrayIbLm3EE\0"
        -> 3 (a: Tensor, b: Tensor, c: SymInts, d: Tensor, e: Tensor, g: MaybeTensor, h: MaybeTensor, i: Flags<3>);
    c"aten::native_batch_norm" =
        b"_ZN2at4_ops17native_batch_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bdd\0"
        -> 3 (a: Tensor, b: MaybeTensor, c: MaybeTensor, d: MaybeTensor, e: MaybeTensor, g: Flag, h: Float, i: Float);
    c"aten::native_batch_norm_backward" =
        b"_ZN2at4_ops26native_batch_norm_backward4callERKNS_6TensorES4_RKSt8optionalIS2_ES8_S8_S8_S8_bdSt5arrayIbLm3EE\0"
        -> 3 (a: Tensor, b: Tensor, c: MaybeTensor, d: MaybeTensor, e: MaybeTensor, g: MaybeTensor, h: MaybeTensor, i: Flag, j: Float, k: Flags<3>);
    c"aten::native_group_norm" =
        b"_ZN2at4_ops17native_group_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_N3c106SymIntESA_SA_ld\0"
        -> 3 (a: Tensor, b: MaybeTensor, c: MaybeTensor, d: SymInt, e: SymInt, g: SymInt, h: Int, i: Float);
    c"aten::native_group_norm_backward" =
        b"_ZN2at4_ops26native_group_norm_backward4callERKNS_6TensorES4_S4_S4_RKSt8optionalIS2_EN3c106SymIntESA_SA_lSt5arrayIbLm3EE\0"
        -> 3 (a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: MaybeTensor, g: SymInt, h: SymInt, i: SymInt, j: Int, k: Flags<3>);
    c"aten::_fused_rms_norm" =
        b"_ZN2at4_ops15_fused_rms_norm4callERKNS_6TensorEN3c108ArrayRefIlEERKSt8optionalIS2_ES8_IdE\0"
        -> 2 (a: Tensor, b: Ints, c: MaybeTensor, d: MaybeFloat);
    c"aten::_softmax" = b"_ZN2at4_ops8_softmax4callERKNS_6TensorElb\0" -> 1 (a: Tensor, b: Int, c: Flag);
    c"aten::_softmax_backward_data" =
        b"_ZN2at4_ops22_softmax_backward_data4callERKNS_6TensorES4_lN3c1010ScalarTypeE\0"
        -> 1 (a: Tensor, b: Tensor, c: Int, d: Dtype);
    c"aten::_log_softmax" = b"_ZN2at4_ops12_log_softmax4callERKNS_6TensorElb\0" -> 1 (a: Tensor, b: Int, c: Flag);
    c"aten::_log_softmax_backward_data" =
        b"_ZN2at4_ops26_log_softmax_backward_data4callERKNS_6TensorES4_lN3c1010ScalarTypeE\0"
        -> 1 (a: Tensor, b: Tensor, c: Int, d: Dtype);
    c"aten::_scaled_dot_product_flash_attention_for_cpu" =
        b"_ZN2at4_ops43_scaled_dot_product_flash_attention_for_cpu4callERKNS_6TensorES4_S4_dbRKSt8optionalIS2_ES5_IdE\0"
        -> 2 (a: Tensor, b: Tensor, c: Tensor, d: Float, e: Flag, g: MaybeTensor, h: MaybeFloat);
    c"aten::_scaled_dot_product_flash_attention_for_cpu_backward" =
        b"_ZN2at4_ops52_scaled_dot_product_flash_attention_for_cpu_backward4callERKNS_6TensorES4_S4_S4_S4_S4_dbRKSt8optionalIS2_ES5_IdE\0"
        -> 3 (a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, g: Tensor, h: Float, i: Flag, j: MaybeTensor, k: MaybeFloat);
    c"aten::gelu" = b"_ZN2at4_ops4gelu4callERKNS_6TensorESt17basic_string_viewIcSt11char_traitsIcEE\0" -> 1 (a: Tensor, b: Text);
    c"aten::gelu_backward" =
        b"_ZN2at4_ops13gelu_backward4callERKNS_6TensorES4_St17basic_string_viewIcSt11char_traitsIcEE\0"
        -> 1 (a: Tensor, b: Tensor, c: Text);
    c"aten::silu" = b"_ZN2at4_ops4silu4callERKNS_6TensorE\0" -> 1 (a: Tensor);
    c"aten::silu_backward" = b"_ZN2at4_ops13silu_backward4callERKNS_6TensorES4_\0" -> 1 (a: Tensor, b: Tensor);
    c"aten::max_pool2d_with_indices" =
        b"_ZN2at4_ops23max_pool2d_with_indices4callERKNS_6TensorEN3c108ArrayRefIlEES7_S7_S7_b\0"
        -> 2 (a: Tensor, b: Ints, c: Ints, d: Ints, e: Ints, g: Flag);
    c"aten::avg_pool2d" =
        b"_ZN2at4_ops10avg_pool2d4callERKNS_6TensorEN3c108ArrayRefIlEES7_S7_bbSt8optionalIlE\0"
        -> 1 (a: Tensor, b: Ints, c: Ints, d: Ints, e: Flag, g: Flag, h: MaybeInt);
    c"aten::avg_pool2d_backward" =
        b"_ZN2at4_ops19avg_pool2d_backward4callERKNS_6TensorES4_N3c108ArrayRefIlEES7_S7_bbSt8optionalIlE\0"
        -> 1 (a: Tensor, b: Tensor, c: Ints, d: Ints, e: Ints, g: Flag, h: Flag, i: MaybeInt);
}
same {
    c"aten::mm.out" = b"_ZN2at4_ops6mm_out4callERKNS_6TensorES4_RS2_\0" -> 2 (a: Tensor, b: Tensor, c: Tensor);
    c"aten::bmm.out" = b"_ZN2at4_ops7bmm_out4callERKNS_6TensorES4_RS2_\0" -> 2 (a: Tensor, b: Tensor, c: Tensor);
    c"aten::silu_" = b"_ZN2at4_ops5silu_4callERNS_6TensorE\0" -> 0 (a: Tensor);
}
}

/// The function of an operation; none on other processors, whose ABI returns objects differently.
pub fn of(operation: &CStr) -> Option<Direct> {
    if !cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        return None;
    }
    // PyTorch has loaded it under this name (on other systems it has another), and never unloads it.
    let library = library::loaded("libtorch_cpu.so".as_ref());
    find(operation, &std::mem::ManuallyDrop::new(library.ok()?))
}
