//! Matrices that are as many and as wide as cuDNN's kernels count.
//!
//! Its kernels of operations on each element have a block for each 8 to 128 columns and one for each matrix, and CUDA starts at most 65535
//! blocks along these sides of a grid: cuDNN 9.19 fails when it runs more. Which element is in which column is nothing that such an operation
//! knows.

use hipdnn_plugin_planner::Refusal;

use super::shape::{Shape, packed};

/// The most columns of a matrix: kernels with 4 for each block take them, too.
const MOST: i64 = 1 << 18;

/// The most matrices of a batch.
const MOST_MATRICES: i64 = 65_535;

/// The columns of what is one row: a block has rows as well, which would have nothing to do.
const WANTED: i64 = 1 << 10;

/// The most columns of rows that end within a block, few of which are then for nothing.
const LONG: i64 = 1 << 13;

/// The fewest columns that are worth a row, which are those of the largest block.
const LEAST: i64 = 1 << 7;

/// The shapes, whose columns are the dimension in this place.
///
/// # Errors
/// When there are more than cuDNN counts.
pub(super) fn counted(shapes: Vec<Shape>, place: usize) -> Result<Vec<Shape>, Refusal> {
    match widest(&shapes, place) {
        columns if columns > MOST => Err(refusal(columns)),
        _ => Ok(shapes),
    }
}

/// The shapes of batches of matrices as cuDNN counts them: wide ones in rows of equal length, the same for all. Where nothing is reduced
/// what is one row becomes several as well.
///
/// # Errors
/// When columns do not divide into such rows, or rows and columns lie so that four dimensions would be left.
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
    // The parts of a row are rows, or matrices of rows that lie below each other.
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

/// Joins neighbours among these dimensions that lie like one in each tensor, but for so many at the end, and answers how many dimensions
/// are left. Shapes of other ranks are single elements.
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

/// Whether a matrix is one that every index of the batch shares: cuDNN 9.14 reads behind the end of it.
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

/// The length of the rows that so many columns are divided into.
fn divisor(columns: i64) -> Option<i64> {
    let divides = |width: &i64| columns % width == 0;
    aligned_divisor(columns)
        .or_else(|| (LEAST..=WANTED).rev().find(divides))
        .or_else(|| (WANTED..=MOST).rev().find(divides))
}

/// The same where rows begin at multiples of 16 elements: rows of whole blocks, else long ones.
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
        // 65537 is a prime number.
        assert_eq!(dims(vec![packed(&[1, 1, 65_537])]).unwrap(), [[1, 1, 65_537]]);
        assert_eq!(dims(vec![packed(&[1, 1, 9 * 65_537])]).unwrap(), [[1, 3, 3 * 65_537]]);
        // What is reduced is divided where it must be.
        let row = narrowed(vec![packed(&[1, 1, MOST]), packed(&[1; 3])], true).unwrap();
        assert_eq!(
            (row[0].dims.as_slice(), row[1].dims.as_slice()),
            ([1, 1, MOST].as_slice(), [1; 3].as_slice())
        );
    }

    #[test]
    fn all_tensors_are_divided_alike_and_stay_where_they_are() {
        // A number for each row, and rows with gaps.
        let rows = Shape { dims: vec![1, 3, 1], strides: vec![3, 1, 1] };
        let gaps = Shape { dims: vec![1, 3, 1 << 23], strides: vec![4 << 23, (1 << 23) + 64, 1] };
        let got = narrowed(vec![gaps, rows, packed(&[1; 4])], false).unwrap();
        assert_eq!(got[0].dims, [3, 1 << 13, 1 << 10]);
        assert_eq!(got[0].strides, [(1 << 23) + 64, 1 << 10, 1]);
        assert_eq!((got[1].dims.as_slice(), got[1].strides[0]), ([3, 1, 1].as_slice(), 1));
        assert_eq!(got[2].dims, [1; 3]);
        // A row that all rows share, or the sum of rows.
        let shared = narrowed(vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23])], true).unwrap();
        assert_eq!(shared[0].dims, [1 << 13, 3, 1 << 10]);
        assert_eq!(shared[0].strides, [1 << 10, 1 << 23, 1]);
        let row = (shared[1].dims.as_slice(), shared[1].strides[0]);
        assert_eq!(row, ([1 << 13, 1, 1 << 10].as_slice(), 1 << 10));
        // The sum of all.
        let sum = narrowed(vec![packed(&[1, 1, 1 << 23]), packed(&[1; 3])], true).unwrap();
        assert_eq!(
            (sum[0].dims.as_slice(), sum[1].dims.as_slice()),
            ([1, 1 << 13, 1 << 10].as_slice(), [1; 3].as_slice())
        );
    }

    #[test]
    fn many_matrices_become_rows_of_few() {
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
    fn what_does_not_divide_is_refused_with_the_number() {
        // A prime number.
        let refusal = narrowed(vec![packed(&[1, 1, 100_000_007])], false).unwrap_err();
        assert_eq!(
            refusal,
            "100000007 elements lie in a row, expected at most 262144, or rows that divide into such ones"
        );
        // A row that all rows share, and a number for each of them.
        let shared = vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23]), packed(&[1, 3, 1])];
        assert!(narrowed(shared, false).unwrap_err().starts_with("8388608 elements"));
        // Neither batch, rows nor columns lie like one.
        let apart = Shape { dims: vec![2, 3, 1 << 23], strides: vec![5 << 23, (1 << 23) + 64, 1] };
        assert!(narrowed(vec![apart], false).is_err());
        assert!(counted(vec![packed(&[2, 1 << 21, 3, 4])], 1).is_err());
        assert!(counted(vec![packed(&[2, 8, 1 << 21, 4])], 1).is_ok());
    }
}
