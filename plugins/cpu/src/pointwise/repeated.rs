//! Copies that repeat each element of a row: nearest-neighbour upscaling of images.

use hipdnn_plugin_sdk::graph::PointwiseMode;

use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Facts, Kernel};
use crate::pointwise::chain::{Chain, Operation, Value};
use crate::problem::Operand;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::loop_nest::LoopNest;
use crate::tensor::row_converter::is_compute_type;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::{Threads, Workers};

/// The most times that an element is repeated.
const MOST: usize = 16;

/// A planned copy.
struct Repeated {
    isa: Isa,
    workers: Workers,
    slots: [usize; 2],
    compute: Compute,
    /// How often each element is written.
    times: usize,
    /// The loops without the repetitions, in the input and in the result.
    nest: LoopNest<2>,
}

/// Plans a copy whose compute-type elements repeat along the result's fastest dimension; `None` for other
/// chains.
pub(crate) fn plan(
    chain: &Chain,
    output: &Operand,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Option<Box<dyn Kernel>> {
    let ([step], [input]) = (chain.steps.as_slice(), chain.inputs.as_slice()) else { return None };
    let is_copy = matches!(step.operation, Operation::Pointwise(PointwiseMode::Identity, _))
        && step.operands == [Value::Input(0)]
        && !input.replaced
        && [input.data_type, step.stored, output.data_type]
            .iter()
            .all(|of| with_compute!(compute, T => is_compute_type::<T>(*of)));
    if !is_copy {
        return None;
    }
    let mut dims = [1; crate::layout::MAX_RANK];
    let rank = output.layout.rank();
    dims[..rank].copy_from_slice(output.layout.dims());
    let fastest = (0..rank).find(|axis| dims[*axis] > 1 && output.layout.strides()[*axis] == 1)?;
    let times = std::mem::replace(&mut dims[fastest], 1);
    let nest = LoopNest::new(&dims[..rank], [&input.strides, output.layout.strides()], 1);
    if times > MOST || input.strides[fastest] != 0 || nest.inner_strides != [1, times] || nest.len < 2 {
        return None;
    }
    let elements = (nest.runs() * nest.len * times) as f64;
    let workers = threads.workers(elements * 0.1, nest.runs());
    let slots = [input.slot, output.slot];
    Some(Box::new(Repeated { isa, workers, slots, compute, times, nest }))
}

impl Kernel for Repeated {
    fn facts(&self) -> Facts {
        Facts::new("element by element", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        self.workers.run(|worker| {
            let [from, to] = self.slots.each(|slot| shared.all()[slot]);
            let rows = self.workers.share(worker, self.nest.runs());
            let Self { nest, times, .. } = self;
            // SAFETY: this function requires the tensors; each worker writes its own rows.
            unsafe {
                let rows = Rows { nest, times: *times, from, to, rows };
                with_compute!(self.compute, T => self.isa.run_vectors::<T, _>(rows));
            }
        });
    }
}

/// Some rows.
struct Rows<'a> {
    nest: &'a LoopNest<2>,
    times: usize,
    from: *mut u8,
    to: *mut u8,
    rows: std::ops::Range<usize>,
}

impl<T: Float> VectorTask<T> for Rows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let Self { nest, times, from, to, rows } = self;
        let mut position = nest.position(rows.start);
        for _ in rows {
            let [from_at, to_at] = position.offsets;
            // SAFETY: the tensors have the row: contiguous in the input, with stride `times` in the result.
            unsafe {
                let (from, to) = (from.cast::<T>().add(from_at), to.cast::<T>().add(to_at));
                let mut at = 0;
                while times == 2 && at + V::LANES <= nest.len {
                    let x = V::load(from.add(at));
                    let (low, high) = x.zip(x);
                    low.store(to.add(2 * at));
                    high.store(to.add(2 * at + V::LANES));
                    at += V::LANES;
                }
                for at in at..nest.len {
                    let value = from.add(at).read_unaligned();
                    for i in 0..times {
                        to.add(at * times + i).write_unaligned(value);
                    }
                }
            }
            nest.advance(&mut position);
        }
    }
}
