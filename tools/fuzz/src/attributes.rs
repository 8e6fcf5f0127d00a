//! Sequences of mostly nonsensical calls on descriptors that keep a caller's promises: arrays have the elements that their
//! count and type say.

use std::ptr::null_mut;
use std::sync::OnceLock;

use hipdnn_abi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnBackendDescriptor_t,
    hipdnnBackendDescriptorType_t as Kind,
};
use hipdnn_backend::c_api;
use strum::VariantArray;

use crate::bytes::Bytes;

/// Descriptors that a sequence has at a time.
const DESCRIPTORS: usize = 8;
/// Elements of an array at most.
const ELEMENTS: i64 = 12;

/// A handle without plugins, to fuzz only the library itself.
fn handle() -> usize {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    *HANDLE.get_or_init(|| {
        let folder = c"/nonexistent".as_ptr();
        let mut handle = null_mut();
        // SAFETY: the array is one path that ends with a NUL, and the function writes only to the local `handle`.
        unsafe {
            c_api::hipdnnSetEnginePluginPaths_ext(1, &raw const folder, 1);
            c_api::hipdnnCreate(&raw mut handle);
        }
        handle.addr()
    })
}

/// A convolution of three tensors, built as a frontend does.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for (kind, _) in Kind::VARIANTS.iter().enumerate() {
        // Create, set every attribute to a few values, read it, finalize, read again.
        let mut seed = vec![0, 0, kind as u8];
        for name in (0..Name::VARIANTS.len()).step_by(3) {
            let [low, high] = (name as u16).to_le_bytes();
            seed.extend([1, 0, low, high, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
            seed.extend([2, 0, low, high, 3, 4]);
        }
        seed.extend([3, 0, 4, 0]);
        seeds.push(seed);
    }
    seeds
}

/// The bytes of an element; 0 for an unknown type.
fn size(kind: i32) -> usize {
    use Type as T;
    match Type::from_repr(kind as _) {
        None => 0,
        Some(T::HIPDNN_TYPE_BOOLEAN | T::HIPDNN_TYPE_CHAR) => 1,
        Some(
            T::HIPDNN_TYPE_INT64
            | T::HIPDNN_TYPE_DOUBLE
            | T::HIPDNN_TYPE_VOID_PTR
            | T::HIPDNN_TYPE_HANDLE
            | T::HIPDNN_TYPE_BACKEND_DESCRIPTOR,
        ) => 8,
        // Enumerations, and elements of four bytes or a few more.
        Some(_) => 16,
    }
}

struct Call {
    name: i32,
    kind: i32,
    count: i64,
    /// Exactly large enough for the elements.
    elements: Vec<u8>,
}

impl Call {
    /// Reads a name and a type, mostly known ones, and elements.
    fn read(bytes: &mut Bytes<'_>, descriptors: &[hipdnnBackendDescriptor_t]) -> Self {
        let (name, kind) = (bytes.word(), bytes.byte());
        let name = match Name::VARIANTS.get(usize::from(name)) {
            Some(name) => *name as i32,
            None => i32::from(name),
        };
        let kind = match Type::VARIANTS.get(usize::from(kind)) {
            Some(kind) => *kind as i32,
            None => i32::from(kind),
        };
        let count = i64::from(bytes.byte().cast_signed()).min(ELEMENTS);
        let mut elements = vec![0; size(kind) * usize::try_from(count).unwrap_or(0)];
        if kind == Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR as i32 {
            for element in elements.chunks_exact_mut(8) {
                let descriptor = descriptors[usize::from(bytes.byte()) % DESCRIPTORS];
                element.copy_from_slice(&descriptor.addr().to_ne_bytes());
            }
        } else if kind == Type::HIPDNN_TYPE_HANDLE as i32 {
            elements.chunks_exact_mut(8).for_each(|element| element.copy_from_slice(&handle().to_ne_bytes()));
        } else {
            for element in &mut elements {
                *element = bytes.byte();
            }
        }
        Self { name, kind, count, elements }
    }
}

pub(crate) fn run(data: &[u8]) {
    handle();
    let mut bytes = Bytes(data);
    let mut descriptors: [hipdnnBackendDescriptor_t; DESCRIPTORS] = [null_mut(); DESCRIPTORS];
    while !bytes.is_empty() {
        let action = bytes.byte();
        let place = usize::from(bytes.byte()) % DESCRIPTORS;
        let at = descriptors[place];
        match action % 6 {
            0 => {
                let kind = usize::from(bytes.byte());
                let kind = Kind::VARIANTS.get(kind).map_or(kind as i32, |kind| *kind as i32);
                c_api::hipdnnBackendDestroyDescriptor(at);
                // SAFETY: the function writes only to the element of the local array.
                unsafe { c_api::hipdnnBackendCreateDescriptor(kind, &raw mut descriptors[place]) };
            }
            1 => {
                let call = Call::read(&mut bytes, &descriptors);
                let from = call.elements.as_ptr().cast();
                // SAFETY: descriptors are looked up whatever they are, and the array has the elements that are said.
                unsafe { c_api::hipdnnBackendSetAttribute(at, call.name, call.kind, call.count, from) };
            }
            2 => {
                let mut call = Call::read(&mut bytes, &descriptors);
                let (mut count, to) = (0, call.elements.as_mut_ptr().cast());
                let (name, kind, room) = (call.name, call.kind, call.count);
                // SAFETY: descriptors are looked up whatever they are, and the array has room for the elements that are said.
                unsafe { c_api::hipdnnBackendGetAttribute(at, name, kind, room, &raw mut count, to) };
            }
            3 => _ = c_api::hipdnnBackendFinalize(at),
            4 => {
                let mut size = 0;
                // SAFETY: descriptors are looked up whatever they are, and the size is writable.
                unsafe {
                    c_api::hipdnnBackendGetSerializedBinaryGraph_ext(at, 0, &raw mut size, null_mut());
                    c_api::hipdnnBackendGetSerializedJsonGraph_ext(at, 0, &raw mut size, null_mut());
                }
            }
            _ => {
                let other = descriptors[usize::from(bytes.byte()) % DESCRIPTORS];
                // SAFETY: handles and descriptors are looked up whatever they are.
                unsafe {
                    c_api::hipdnnBackendExecute(std::ptr::without_provenance_mut(handle()), at, other);
                }
            }
        }
    }
    for descriptor in descriptors {
        c_api::hipdnnBackendDestroyDescriptor(descriptor);
    }
}
