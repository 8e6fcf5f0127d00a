//! Reshapes matrices to fit the grids of cuDNN's kernels.
//!
//! Its pointwise kernels use one block per 8 to 128 columns and one per matrix, and CUDA limits these grid
//! dimensions to 65535 blocks: cuDNN 9.19 fails at execution beyond that. Pointwise operations do not depend
//! on which element is in which column.

use hipdnn_plugin_planner::Refusal;

use super::shape::{Shape, packed};

/// Maximum number of columns of a matrix, also for kernels with 4 columns per block.
const MOST: i64 = 1 << 18;

/// Maximum number of matrices in a batch.
const MOST_MATRICES: i64 = 65_535;

/// Preferred number of columns when a single row is split: blocks have rows as well, which would be idle.
const WANTED: i64 = 1 << 10;

/// Maximum number of columns of rows that end within a block, so that few of its columns are idle.
const LONG: i64 = 1 << 13;

/// Minimum number of columns of a row: those of the largest block.
const LEAST: i64 = 1 << 7;

/// Returns the shapes, whose columns are dimension `place`.
///
/// # Errors
/// When there are more columns than cuDNN supports.
pub(super) fn counted(shapes: Vec<Shape>, place: usize) -> Result<Vec<Shape>, Refusal> {
    match widest(&shapes, place) {
        columns if columns > MOST => Err(refusal(columns)),
        _ => Ok(shapes),
    }
}

/// Reshapes batches of matrices for cuDNN: wide ones are split into rows of equal length, the same for all.
/// If nothing is reduced, a single row is split into several as well.
///
/// # Errors
/// When columns do not divide into such rows, or the strides of rows and columns would require four
/// dimensions.
pub(super) fn narrowed(shapes: Vec<Shape>, reduces: bool) -> Result<Vec<Shape>, Refusal> {
    let [batch, rows, columns] = [0, 1, 2].map(|place| widest(&shapes, place));
    let is_row = batch == 1 && rows == 1 && !reduces;
    let width = if columns > MOST {
        divisor(columns)
    } else if is_row && columns > WANTED {
        aligned_divisor(columns)
    } else {
        None
    };
    let fits = |shapes: &[Shape]| widest(shapes, 0) <= MOST_MATRICES && widest(shapes, 2) <= MOST;
    let Some(width) = width else {
        if fits(&shapes) {
            return Ok(shapes);
        }
        let turned: Vec<Shape> = shapes.iter().map(|shape| shape.picked(&[1, 0, 2])).collect();
        return if fits(&turned) && !shares_matrices(&turned) {
            Ok(turned)
        } else if columns > MOST {
            Err(refusal(columns))
        } else {
            Err(format!("{batch} matrices of {rows} rows, expected at most {MOST_MATRICES} of either"))
        };
    };
    let divided = |shape: Shape| match (shape.dims.as_slice(), shape.strides.as_slice()) {
        (&[batch, rows, own], &[of_batch, of_row, stride]) => {
            let [outer, inner] = if own == 1 { [1, 1] } else { [own / width, width] };
            let of_outer = if own == 1 { of_row } else { inner * stride };
            Shape { dims: vec![batch, rows, outer, inner], strides: vec![of_batch, of_row, of_outer, stride] }
        }
        _ => packed(&[1; 4]),
    };
    let divided: Vec<Shape> = shapes.into_iter().map(divided).collect();
    // The parts of a row become rows, or matrices whose rows lie below each other.
    for order in [[0, 1, 2, 3], [0, 2, 1, 3]] {
        let mut shapes: Vec<Shape> = divided.iter().map(|shape| shape.picked(&order)).collect();
        let rank = join(&mut shapes, 4, 1);
        let shapes: Vec<Shape> = shapes.into_iter().map(|shape| shape.lead(3)).collect();
        if rank <= 3 && fits(&shapes) && !shares_matrices(&shapes) {
            return Ok(shapes);
        }
    }
    Err(refusal(columns))
}

/// Merges adjacent dimensions that every tensor can treat as one, except the last `apart`, and returns how
/// many are left. Shapes of other ranks are single elements.
pub(super) fn join(shapes: &mut [Shape], mut rank: usize, apart: usize) -> usize {
    let joins = |shape: &Shape, at: usize| {
        let (dims, strides) = (shape.dims.get(at..at + 2), shape.strides.get(at..at + 2));
        match (dims, strides) {
            (Some([1, 1]), _) => true,
            (Some([outer, inner]), Some([step, stride])) => {
                *outer > 1 && *inner > 1 && *step == *inner * *stride
            }
            // A single element.
            _ => true,
        }
    };
    let mut at = 0;
    while at + 1 + apart < rank {
        let ones = shapes.iter().all(|shape| shape.dims.get(at).is_none_or(|dim| *dim == 1));
        if ones || shapes.iter().all(|shape| joins(shape, at)) {
            for shape in shapes.iter_mut().filter(|shape| shape.dims.len() == rank) {
                let outer = shape.dims.remove(at);
                shape.strides.remove(at);
                if let Some(inner) = shape.dims.get_mut(at) {
                    *inner *= outer;
                }
            }
            rank -= 1;
        } else {
            at += 1;
        }
    }
    rank
}

/// Whether all indices of the batch share a matrix: cuDNN 9.14 reads beyond its end.
pub(super) fn shares_matrices(shapes: &[Shape]) -> bool {
    let batch = shapes.iter().filter_map(|shape| shape.dims.first()).max();
    shapes.iter().any(|shape| shape.dims.first() != batch && shape.dims.iter().any(|dim| *dim > 1))
}

fn widest(shapes: &[Shape], place: usize) -> i64 {
    shapes.iter().filter_map(|shape| shape.dims.get(place)).max().copied().unwrap_or(1)
}

fn refusal(columns: i64) -> Refusal {
    format!("{columns} elements lie in a row, expected at most {MOST}, or rows that divide into such ones")
}

/// The length of the rows into which this many columns are split.
fn divisor(columns: i64) -> Option<i64> {
    let divides = |width: &i64| columns % width == 0;
    aligned_divisor(columns)
        .or_else(|| (LEAST..=WANTED).rev().find(divides))
        .or_else(|| (WANTED..=MOST).rev().find(divides))
}

/// The same for rows that begin at multiples of 16 elements: rows of whole blocks, else long ones.
fn aligned_divisor(columns: i64) -> Option<i64> {
    let divides = |width: &i64| columns % width == 0;
    let whole = (LEAST..=WANTED).rev().step_by(LEAST as usize).find(divides);
    whole.or_else(|| (LEAST..=LONG).rev().step_by(16).find(divides))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(shapes: Vec<Shape>) -> Result<Vec<Vec<i64>>, Refusal> {
        Ok(narrowed(shapes, false)?.into_iter().map(|shape| shape.dims).collect())
    }

    #[test]
    fn wide_matrices_get_more_rows() {
        assert_eq!(dims(vec![packed(&[1, 1, 1 << 10])]).unwrap(), [[1, 1, 1 << 10]]);
        assert_eq!(dims(vec![packed(&[1, 1, 1 << 14])]).unwrap(), [[1, 1 << 4, 1 << 10]]);
        assert_eq!(dims(vec![packed(&[1, 1, 1 << 23])]).unwrap(), [[1, 1 << 13, 1 << 10]]);
        assert_eq!(dims(vec![packed(&[1, 1, 100_000_000])]).unwrap(), [[1, 156_250, 640]]);
        assert_eq!(dims(vec![packed(&[1, 3, 1 << 23])]).unwrap(), [[1, 3 << 13, 1 << 10]]);
        assert_eq!(dims(vec![packed(&[1, 3, MOST])]).unwrap(), [[1, 3, MOST]]);
        assert_eq!(dims(vec![packed(&[1, 1, 48 * 509])]).unwrap(), [[1, 3, 16 * 509]]);
        // 65537 is prime.
        assert_eq!(dims(vec![packed(&[1, 1, 65_537])]).unwrap(), [[1, 1, 65_537]]);
        assert_eq!(dims(vec![packed(&[1, 1, 9 * 65_537])]).unwrap(), [[1, 3, 3 * 65_537]]);
        // Reduced dimensions are only split if necessary.
        let row = narrowed(vec![packed(&[1, 1, MOST]), packed(&[1; 3])], true).unwrap();
        assert_eq!(
            (row[0].dims.as_slice(), row[1].dims.as_slice()),
            ([1, 1, MOST].as_slice(), [1; 3].as_slice())
        );
    }

    #[test]
    fn all_tensors_are_divided_alike_without_moving() {
        // One value per row, and rows with gaps.
        let rows = Shape { dims: vec![1, 3, 1], strides: vec![3, 1, 1] };
        let gaps = Shape { dims: vec![1, 3, 1 << 23], strides: vec![4 << 23, (1 << 23) + 64, 1] };
        let got = narrowed(vec![gaps, rows, packed(&[1; 4])], false).unwrap();
        assert_eq!(got[0].dims, [3, 1 << 13, 1 << 10]);
        assert_eq!(got[0].strides, [(1 << 23) + 64, 1 << 10, 1]);
        assert_eq!((got[1].dims.as_slice(), got[1].strides[0]), ([3, 1, 1].as_slice(), 1));
        assert_eq!(got[2].dims, [1; 3]);
        // A row shared by all rows, or the sum of rows.
        let shared = narrowed(vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23])], true).unwrap();
        assert_eq!(shared[0].dims, [1 << 13, 3, 1 << 10]);
        assert_eq!(shared[0].strides, [1 << 10, 1 << 23, 1]);
        let row = (shared[1].dims.as_slice(), shared[1].strides[0]);
        assert_eq!(row, ([1 << 13, 1, 1 << 10].as_slice(), 1 << 10));
        // The sum of all elements.
        let sum = narrowed(vec![packed(&[1, 1, 1 << 23]), packed(&[1; 3])], true).unwrap();
        assert_eq!(
            (sum[0].dims.as_slice(), sum[1].dims.as_slice()),
            ([1, 1 << 13, 1 << 10].as_slice(), [1; 3].as_slice())
        );
    }

    #[test]
    fn many_matrices_become_more_rows_of_few_matrices() {
        let gaps = Shape { dims: vec![70_000, 3, 8], strides: vec![32, 9, 1] };
        let turned = narrowed(vec![gaps], false).unwrap();
        assert_eq!(
            (turned[0].dims.as_slice(), turned[0].strides.as_slice()),
            ([3, 70_000, 8].as_slice(), [9, 32, 1].as_slice())
        );
        let both = Shape { dims: vec![70_000, 70_000, 8], strides: vec![70_000 * 9, 9, 1] };
        let refusal = narrowed(vec![both], false).unwrap_err();
        assert_eq!(refusal, "70000 matrices of 70000 rows, expected at most 65535 of either");
    }

    #[test]
    fn indivisible_rows_are_refused_with_their_length() {
        // A prime number.
        let refusal = narrowed(vec![packed(&[1, 1, 100_000_007])], false).unwrap_err();
        assert_eq!(
            refusal,
            "100000007 elements lie in a row, expected at most 262144, or rows that divide into such ones"
        );
        // A row shared by all rows, and one value per row.
        let shared = vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23]), packed(&[1, 3, 1])];
        assert!(narrowed(shared, false).unwrap_err().starts_with("8388608 elements"));
        // Neither batch, rows nor columns can be merged.
        let apart = Shape { dims: vec![2, 3, 1 << 23], strides: vec![5 << 23, (1 << 23) + 64, 1] };
        assert!(narrowed(vec![apart], false).is_err());
        assert!(counted(vec![packed(&[2, 1 << 21, 3, 4])], 1).is_err());
        assert!(counted(vec![packed(&[2, 8, 1 << 21, 4])], 1).is_ok());
    }
}
