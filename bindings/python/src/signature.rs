//! What tells calls with PyTorch's tensors apart: the numbers that describe their arguments.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::dlpack::{self, Exchange};
use crate::protocols::{Described, Kind, may_negate};
use crate::storage;

/// What is asked of PyTorch in each call.
pub struct Torch {
    /// The types of tensors that are nothing more.
    plain: [Py<PyType>; 2],
    dtype: Py<PyType>,
    pub exchange: &'static Exchange,
    dispatch_modes: Py<PyAny>,
    transforms: Py<PyAny>,
    /// The module that has the number of open levels of tangents.
    forward_mode: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    is_autocast_enabled: Py<PyAny>,
    autocast_dtype: Py<PyAny>,
    pub empty_strided: Py<PyAny>,
    pub empty_like: Py<PyAny>,
    host: Py<PyAny>,
    gpu: Py<PyAny>,
}

static TORCH: PyOnceLock<Option<Torch>> = PyOnceLock::new();

impl Torch {
    /// PyTorch; none where it does not describe tensors to others (before 2.10).
    pub fn get(py: Python<'_>) -> PyResult<Option<&Self>> {
        Ok(TORCH.get_or_try_init(py, || Self::find(py))?.as_ref())
    }

    fn find(py: Python<'_>) -> PyResult<Option<Self>> {
        let torch = py.import("torch")?;
        let native = torch.getattr("_C")?;
        let kind = |of: &Bound<'_, PyAny>, name: &str| -> PyResult<Py<PyType>> {
            Ok(of.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let tensor = kind(torch.as_any(), "Tensor")?;
        let Some(exchange) = Kind::of(tensor.bind(py))?.exchange().filter(|of| of.describe.is_some()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            plain: [tensor, kind(&torch.getattr("nn")?, "Parameter")?],
            dtype: kind(torch.as_any(), "dtype")?,
            exchange,
            dispatch_modes: native.getattr("_len_torch_dispatch_stack")?.unbind(),
            transforms: native.getattr("_functorch")?.getattr("peek_interpreter_stack")?.unbind(),
            forward_mode: py.import("torch.autograd.forward_ad")?.into_any().unbind(),
            is_grad_enabled: torch.getattr("is_grad_enabled")?.unbind(),
            is_autocast_enabled: torch.getattr("is_autocast_enabled")?.unbind(),
            autocast_dtype: torch.getattr("get_autocast_dtype")?.unbind(),
            empty_strided: torch.getattr("empty_strided")?.unbind(),
            empty_like: torch.getattr("empty_like")?.unbind(),
            host: PyString::new(py, "cpu").into_any().unbind(),
            gpu: PyString::new(py, "cuda").into_any().unbind(),
        }))
    }

    /// Whether nothing but autograd looks at calls: no mode, no transformation of functions, no tangents.
    pub fn is_plain(&self, py: Python<'_>) -> PyResult<bool> {
        let level: i64 = self.forward_mode.bind(py).getattr(intern!(py, "_current_level"))?.extract()?;
        let modes: usize = self.dispatch_modes.bind(py).call0()?.extract()?;
        Ok(level < 0 && modes == 0 && self.transforms.bind(py).call0()?.is_none())
    }
}

/// The numbers that describe arguments. Equal numbers are of arguments that the same plan, or the same way to compute, is for.
#[derive(Default)]
pub struct Signature {
    pub words: Vec<i64>,
    /// Where tensors begin, in the order of the arguments.
    pub addresses: Vec<usize>,
    /// Where the first tensor is.
    pub device: Option<dlpack::Device>,
}

/// What a number in a signature begins.
enum Tag {
    None,
    Bool,
    Int,
    Float,
    Text,
    Sequence,
    Type,
    Tensor,
}

impl Signature {
    /// Adds an argument; answers whether it can be described.
    pub fn add(&mut self, torch: &Torch, value: &Bound<'_, PyAny>, with_grad: bool) -> PyResult<bool> {
        let kind = value.get_type_ptr().cast();
        if torch.plain.iter().any(|plain| plain.as_ptr() == kind) {
            return self.add_tensor(torch, value, with_grad);
        }
        if value.is_none() {
            self.words.push(Tag::None as i64);
        } else if value.is_exact_instance_of::<PyInt>() {
            let Ok(number) = value.extract() else { return Ok(false) };
            self.words.extend([Tag::Int as i64, number]);
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.words.extend([Tag::Bool as i64, i64::from(truth.is_true())]);
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.words.extend([Tag::Float as i64, number.extract::<f64>()?.to_bits().cast_signed()]);
        } else if let Ok(items) = value.cast::<PyTuple>() {
            self.words.extend([Tag::Sequence as i64, i64::try_from(items.len())?]);
            for item in items.iter_borrowed() {
                if !self.add(torch, &item, with_grad)? {
                    return Ok(false);
                }
            }
        } else if let Ok(items) = value.cast::<PyList>() {
            self.words.extend([Tag::Sequence as i64, i64::try_from(items.len())?]);
            for item in items.iter() {
                if !self.add(torch, &item, with_grad)? {
                    return Ok(false);
                }
            }
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            let text = text.to_cow()?;
            self.words.extend([Tag::Text as i64, i64::try_from(text.len())?]);
            self.words.extend(text.bytes().map(i64::from));
        } else if kind == torch.dtype.as_ptr() {
            // Types live as long as PyTorch.
            self.words.extend([Tag::Type as i64, value.as_ptr().addr().cast_signed() as i64]);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn add_tensor(&mut self, torch: &Torch, value: &Bound<'_, PyAny>, with_grad: bool) -> PyResult<bool> {
        let Some(of) = Described::new(value, torch.exchange) else { return Ok(false) };
        let tensor = &of.tensor;
        let (Some(dims), Some(strides)) = (of.dims(), of.strides()) else { return Ok(false) };
        // Those that might be views that negate their elements are looked at elsewhere.
        if may_negate(dims, strides) && value.call_method0(intern!(value.py(), "is_neg"))?.is_truthy()? {
            return Ok(false);
        }
        let dlpack::DataType { code, bits, lanes } = tensor.dtype;
        let kind =
            i64::from(code) | i64::from(bits) << 8 | i64::from(lanes) << 16 | i64::from(tensor.ndim) << 32;
        let device = i64::from(tensor.device.kind) | i64::from(tensor.device.id) << 32;
        let with_grad = with_grad && value.getattr(intern!(value.py(), "requires_grad"))?.is_truthy()?;
        self.words.extend([Tag::Tensor as i64 | i64::from(with_grad) << 8, kind, device]);
        self.words.extend_from_slice(dims);
        self.words.extend_from_slice(strides);
        self.device.get_or_insert(tensor.device);
        self.addresses.push(storage::address(value, tensor)?.expose_provenance());
        Ok(true)
    }

    /// Adds what PyTorch is told apart from arguments: whether gradients are wanted, and autocast.
    pub fn add_modes(&mut self, py: Python<'_>, torch: &Torch) -> PyResult<()> {
        let of = match self.device {
            Some(device) if device.kind != dlpack::CPU => &torch.gpu,
            _ => &torch.host,
        };
        let gradients = torch.is_grad_enabled.bind(py).call0()?.is_truthy()?;
        let cast = match torch.is_autocast_enabled.bind(py).call1((of,))?.is_truthy()? {
            true => torch.autocast_dtype.bind(py).call1((of,))?.as_ptr().addr().cast_signed() as i64,
            false => 0,
        };
        self.words.extend([i64::from(gradients), cast]);
        Ok(())
    }
}

/// Mixes words, which no stranger chooses.
#[derive(Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, byte)| *to = *byte);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // The upper bits are the mixed ones.
        self.0.rotate_left(26)
    }
}

/// A map by signatures or addresses.
pub type Known<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// More signatures than a program has at a time.
pub const MOST: usize = 4096;

/// Keeps a value. A full map is emptied before: the answer is what it had, to be dropped where no lock is held, since plans may end there.
#[must_use]
pub fn keep<K: Eq + Hash, V>(known: &mut Known<K, V>, key: K, value: V) -> Option<Known<K, V>> {
    let full = (known.len() >= MOST).then(|| std::mem::take(known));
    known.insert(key, value);
    full
}
