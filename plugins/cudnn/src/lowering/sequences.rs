//! How the sequences of an attention are stored: evenly spaced, at ragged offsets, or in the blocks of a page
//! table.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Shape as Numbers, Start};

use super::shape::{Shape, packed};
use super::{Builder, Descriptor, TensorPlace, data_type};
use crate::names::{
    ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC, ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC,
    ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC, ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC,
    BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR,
};

/// Bytes that cuDNN's kernels access at once, without checking that the address is a multiple.
const VECTOR: i64 = 16;

impl Builder<'_> {
    /// Checks that the layout of tensors with heads suits cuDNN's kernels.
    pub(super) fn check_sequences(
        &self,
        shape: &Numbers,
        tensors: &[(&str, i64, &Sequences)],
    ) -> Result<(), Refusal> {
        let names: Vec<_> = tensors.iter().map(|(name, uid, _)| (*name, *uid)).collect();
        self.check_heads(&names)?;
        for (name, _, sequences) in tensors {
            let (dims, strides) = (sequences.dims(), sequences.strides());
            match &sequences.start {
                Start::Even => {}
                Start::Packed => {
                    return Err(format!(
                        "{name}: sequences are packed into one, expected a dimension of them: cuDNN asks for their offsets, which no tensor of the graph has"
                    ));
                }
                Start::Ragged { offsets, multiplier } => {
                    check_offsets(name, offsets, *multiplier)?;
                    if dims[1] > 1 && dims[2] > 1 && strides[1] >= strides[2] {
                        return Err(format!(
                            "{name}: is ragged with strides {strides:?}, expected the heads of a position to be adjacent"
                        ));
                    }
                }
                Start::Paged(table) => check_pages(name, table, dims, strides, shape.keys)?,
            }
        }
        Ok(())
    }

    /// A tensor with one value per query and head; cuDNN only respects its layout if it is ragged.
    pub(super) fn statistics(
        &mut self,
        name: &str,
        uid: i64,
        sequences: &Sequences,
        dims: &[i64; 4],
    ) -> Result<TensorPlace, Refusal> {
        let strides = sequences.strides().map(|stride| stride as i64);
        let [sequence, head, row, _] = strides;
        match &sequences.start {
            Start::Ragged { offsets, multiplier } => {
                check_offsets(name, offsets, *multiplier)?;
                self.tensor_as(uid, Shape { dims: dims.to_vec(), strides: vec![sequence, head, row, 1] })
            }
            _ => {
                let shape = packed(dims);
                let long = |(dim, strides): (&i64, (&i64, &i64))| *dim > 1 && strides.0 != strides.1;
                if dims.iter().zip(strides.iter().zip(&shape.strides)).any(long) {
                    // Before 9.26 cuDNN misinterprets them.
                    let expected = &shape.strides;
                    return Err(format!(
                        "{name}: strides are {strides:?}, expected {expected:?}, without gaps"
                    ));
                }
                self.tensor_as(uid, shape)
            }
        }
    }

    /// The lengths of sequences, densely stored.
    pub(super) fn lengths(
        &mut self,
        name: &str,
        uid: i64,
        lengths: &Integers,
    ) -> Result<TensorPlace, Refusal> {
        let ([count, _], [stride, _]) = (lengths.dims, lengths.strides);
        if count > 1 && stride != 1 {
            return Err(format!("{name}: stride is {stride}, expected 1"));
        }
        self.tensor_as(uid, packed(&[count as i64, 1, 1, 1]))
    }

    /// The offsets of a ragged tensor.
    pub(super) fn offsets(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let count = self.layout(uid)?.elements();
        self.even(uid, packed(&[count as i64, 1, 1, 1]))
    }

    /// The keys or values in a page table's blocks, in this shape.
    pub(super) fn loaded(
        &mut self,
        uid: i64,
        (table, pages): (i64, &Integers),
        lengths: TensorPlace,
        shape: Shape,
    ) -> Result<TensorPlace, Refusal> {
        let container = self.tensor(uid)?;
        let [sequences, blocks] = pages.dims.map(|dim| dim as i64);
        let table = self.tensor_as(table, packed(&[sequences, 1, blocks, 1]))?;
        let y = self.between_as(self.type_of(uid)?, shape);
        self.operation(
            Descriptor::new(BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR)
                .tensor(ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC, container)
                .tensor(ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC, table)
                .tensor(ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC, lengths)
                .tensor(ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, y),
        );
        Ok(y)
    }

    /// Checks that the elements of each head are contiguous and aligned for cuDNN's kernels.
    fn check_heads(&self, tensors: &[(&str, i64)]) -> Result<(), Refusal> {
        for (name, uid) in tensors {
            let Some(tensor) = self.graph.tensor(*uid) else { continue };
            let size = tensor.data_type.size().unwrap_or(1) as i64;
            let long = |(dim, _): &(&i64, &i64)| **dim > 1;
            let mut strides = tensor.dims.iter().zip(&tensor.strides);
            if let Some((_, stride)) = strides.next_back().filter(long).filter(|(_, stride)| **stride != 1) {
                return Err(format!("{name}: stride of the last dimension is {stride}, expected 1"));
            }
            if let Some((_, stride)) = strides.filter(long).find(|(_, stride)| **stride * size % VECTOR != 0)
            {
                return Err(format!(
                    "{name}: a stride is {stride} elements of {size} bytes, expected a multiple of {VECTOR} bytes"
                ));
            }
            if !tensor.is_virtual && tensor.alignment % VECTOR != 0 {
                return Err(format!("{name}: is aligned to {} bytes, expected {VECTOR}", tensor.alignment));
            }
        }
        Ok(())
    }

    /// A tensor of the graph with its last two dimensions swapped.
    pub(super) fn transposed(&mut self, uid: i64) -> Result<TensorPlace, Refusal> {
        let shape: Shape = self.view.shape(&self.layout(uid)?)?.transposed();
        self.tensor_as(uid, shape)
    }

    /// cuDNN's data type of a tensor of the graph.
    pub(super) fn type_of(&self, uid: i64) -> Result<i32, Refusal> {
        let tensor = self.graph.tensor(uid);
        data_type(tensor.ok_or_else(|| format!("no tensor of the graph has the uid {uid}"))?.data_type)
    }
}

/// cuDNN's offsets count elements, whatever the graph's multiplier is.
fn check_offsets(name: &str, offsets: &Integers, multiplier: usize) -> Result<(), Refusal> {
    let ([count, _], [stride, _]) = (offsets.dims, offsets.strides);
    if multiplier != 1 {
        return Err(format!(
            "{name}: ragged_offset_multiplier is {multiplier}, expected 1: cuDNN's offsets count elements"
        ));
    }
    if count > 1 && stride != 1 {
        return Err(format!("ragged offsets of {name}: stride is {stride}, expected 1"));
    }
    Ok(())
}

/// Checks that a table has no more columns than there are blocks of keys, and that blocks are dense.
fn check_pages(
    name: &str,
    table: &Integers,
    dims: [usize; 4],
    strides: [usize; 4],
    keys: usize,
) -> Result<(), Refusal> {
    let [sequences, blocks] = table.dims;
    let needed = keys.div_ceil(dims[2].max(1));
    if blocks != needed {
        return Err(format!(
            "page_table_{name}: has {blocks} blocks a sequence, expected {needed} for {keys} keys"
        ));
    }
    if (blocks > 1 && table.strides[1] != 1) || (sequences > 1 && table.strides[0] != blocks) {
        return Err(format!(
            "page_table_{name}: strides are {:?}, expected {blocks} and 1, without gaps",
            table.strides
        ));
    }
    let expected = packed(&dims.map(|dim| dim as i64)).strides;
    let differs =
        |((dim, stride), expected): ((&usize, &usize), &i64)| *dim > 1 && *stride as i64 != *expected;
    if dims.iter().zip(&strides).zip(&expected).any(differs) {
        return Err(format!(
            "{name}: strides of the blocks are {strides:?}, expected {expected:?}, without gaps"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
