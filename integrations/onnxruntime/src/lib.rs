//! An execution provider that ONNX Runtime loads at run time (1.23 and newer): it claims the subgraphs that hipDNN computes.
//!
//! A model's way through it: [`model`] copies ONNX Runtime's graph into plain data; [`operators`] defines, for each
//! ONNX operator, what is supported and how it is computed; [`lowering`] turns nodes into hipDNN graphs; [`partition`] decides which
//! nodes are claimed together, with [`samples`] of sizes that are open; [`rewrite`] fuses nodes that form one operation; [`compiled`] keeps a plan for each shape and executes it;
//! [`context`] writes and reads compiled models; [`gpu`] manages GPU memory. [`ort`] is the C interface, and ONNX Runtime calls
//! [`factory`] and [`ep`].

mod base64;
mod best;
pub mod bits;
pub mod compiled;
pub mod context;
pub mod ep;
pub mod factory;
pub mod failure;
pub mod gpu;
pub mod hash;
pub mod library;
pub mod lowering;
pub mod memory;
pub mod model;
pub mod operators;
pub mod options;
pub mod ort;
pub mod partition;
pub mod profile;
pub mod rewrite;
pub mod samples;
pub mod shapes;
pub mod steps;
pub mod terminate;
pub mod threads;
pub mod weights;

use std::ffi::c_char;

use factory::Factory;
use failure::Failure;
use ort::{Ort, OrtApiBase, OrtEpFactory, OrtLogger, OrtStatus, guard};

/// Makes the factory when an application registers this library.
///
/// # Safety
/// ONNX Runtime calls it: the base lives as long as this library is registered, and the array has the given size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CreateEpFactories(
    _registered_name: *const c_char,
    base: *const OrtApiBase,
    _logger: *const OrtLogger,
    factories: *mut *mut OrtEpFactory,
    room: usize,
    number: *mut usize,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime calls it: the base lives as long as this library is registered, and the array has the given size, as this
    // function requires.
    let ort = match unsafe { Ort::negotiate(base) } {
        Ok(ort) => ort,
        Err(text) => {
            // Without ONNX Runtime's functions no status can be made: return no factory, and print the reason if possible.
            eprintln!("onnxruntime_ep_hipdnn: {text}");
            if !number.is_null() {
                // SAFETY: `number` is not null here, and ONNX Runtime passes one that is writable.
                unsafe { number.write(0) };
            }
            return std::ptr::null_mut();
        }
    };
    guard(ort, "CreateEpFactories", || {
        if factories.is_null() || number.is_null() || room == 0 {
            return Err(Failure::argument(
                "CreateEpFactories: there is room for 0 factories, expected 1 or more",
            ));
        }
        // SAFETY: both outputs were checked above, and the array has room for one.
        unsafe {
            factories.write(Factory::create(ort));
            number.write(1);
        }
        Ok(())
    })
}

/// Destroys a factory.
///
/// # Safety
/// ONNX Runtime calls it once for each factory, after everything that the factory made was released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ReleaseEpFactory(factory: *mut OrtEpFactory) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime calls it once for each factory, after everything that the factory made was released, as this function
    // requires.
    unsafe { Factory::release(factory) };
    std::ptr::null_mut()
}
