//! Matrices that are as wide as cuDNN's kernels count.
//!
//! Its kernels of operations on each element have a block for each 128 columns, and CUDA starts at most 65535 blocks along that side of a
//! grid: wider ones fail when they run. Which element is in which column is nothing that such an operation knows.

use hipdnn_plugin_planner::Refusal;

use super::view::{Shape, packed};

/// The most columns of a matrix. Kernels with fewer for each block take them, too.
const MOST: i64 = 1 << 20;

/// The most matrices of a batch that a wide one is divided into: blocks along another side of the grid.
const MOST_MATRICES: i64 = 65_535;

/// What a wide matrix is divided into, if it can be: rows that are long enough for whole blocks, and many of them.
const WANTED: i64 = 1 << 13;

/// The fewest columns that are worth a row.
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

/// The shapes of batches of matrices with as many columns as cuDNN counts: wider ones in rows of equal length, the same for all.
///
/// # Errors
/// When columns do not divide into such rows, or rows and columns lie so that four dimensions would be left.
pub(super) fn narrowed(shapes: Vec<Shape>) -> Result<Vec<Shape>, Refusal> {
    let columns = widest(&shapes, 2);
    if columns <= MOST {
        return Ok(shapes);
    }
    let width = divisor(columns).ok_or_else(|| refusal(columns))?;
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
        let most = shapes.iter().filter_map(|shape| shape.dims.first()).max();
        if rank <= 3 && most.is_none_or(|most| *most <= MOST_MATRICES) && !shares_matrices(&shapes) {
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

/// The length of the rows that so many columns are divided into, best one whose rows begin at multiples of 16 elements.
fn divisor(columns: i64) -> Option<i64> {
    let divides = |width: &i64| columns % width == 0;
    let aligned = (LEAST..=WANTED).rev().step_by(16).find(divides);
    aligned.or_else(|| (LEAST..=WANTED).rev().find(divides)).or_else(|| (WANTED..=MOST).rev().find(divides))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(shapes: Vec<Shape>) -> Result<Vec<Vec<i64>>, Refusal> {
        Ok(narrowed(shapes)?.into_iter().map(|shape| shape.dims).collect())
    }

    #[test]
    fn wide_matrices_get_more_rows() {
        assert_eq!(dims(vec![packed(&[1, 1, MOST])]).unwrap(), [[1, 1, MOST]]);
        assert_eq!(dims(vec![packed(&[1, 1, 1 << 23])]).unwrap(), [[1, 1 << 10, 1 << 13]]);
        assert_eq!(dims(vec![packed(&[1, 1, 100_000_000])]).unwrap(), [[1, 12_500, 8_000]]);
        assert_eq!(dims(vec![packed(&[1, 3, 1 << 23])]).unwrap(), [[1, 3 << 10, 1 << 13]]);
        // 9 · 349529, of which the second is a prime number.
        assert_eq!(dims(vec![packed(&[1, 1, 9 * 349_529])]).unwrap(), [[1, 9, 349_529]]);
    }

    #[test]
    fn all_tensors_are_divided_alike_and_stay_where_they_are() {
        // A number for each row, and rows with gaps.
        let rows = Shape { dims: vec![1, 3, 1], strides: vec![3, 1, 1] };
        let gaps = Shape { dims: vec![1, 3, 1 << 23], strides: vec![4 << 23, (1 << 23) + 64, 1] };
        let got = narrowed(vec![gaps, rows, packed(&[1; 4])]).unwrap();
        assert_eq!(got[0].dims, [3, 1 << 10, 1 << 13]);
        assert_eq!(got[0].strides, [(1 << 23) + 64, 1 << 13, 1]);
        assert_eq!((got[1].dims.as_slice(), got[1].strides[0]), ([3, 1, 1].as_slice(), 1));
        assert_eq!(got[2].dims, [1; 3]);
        // A row that all rows share, or the sum of rows.
        let shared = narrowed(vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23])]).unwrap();
        assert_eq!(shared[0].dims, [1 << 10, 3, 1 << 13]);
        assert_eq!(shared[0].strides, [1 << 13, 1 << 23, 1]);
        assert_eq!(
            (shared[1].dims.as_slice(), shared[1].strides[0]),
            ([1 << 10, 1, 1 << 13].as_slice(), 1 << 13)
        );
        // The sum of all.
        assert_eq!(
            dims(vec![packed(&[1, 1, 1 << 23]), packed(&[1; 3])]).unwrap(),
            [[1, 1 << 10, 1 << 13], [1; 3]]
        );
    }

    #[test]
    fn what_does_not_divide_is_refused_with_the_number() {
        // A prime number.
        let refusal = narrowed(vec![packed(&[1, 1, 100_000_007])]).unwrap_err();
        assert_eq!(
            refusal,
            "100000007 elements lie in a row, expected at most 1048576, or rows that divide into such ones"
        );
        // A row that all rows share, and a number for each of them.
        let shared = vec![packed(&[1, 3, 1 << 23]), packed(&[1, 1, 1 << 23]), packed(&[1, 3, 1])];
        assert!(narrowed(shared).unwrap_err().starts_with("8388608 elements"));
        // Neither batch, rows nor columns lie like one.
        let apart = Shape { dims: vec![2, 3, 1 << 23], strides: vec![5 << 23, (1 << 23) + 64, 1] };
        assert!(narrowed(vec![apart]).is_err());
        assert!(counted(vec![packed(&[2, 1 << 21, 3, 4])], 1).is_err());
        assert!(counted(vec![packed(&[2, 8, 1 << 21, 4])], 1).is_ok());
    }
}
