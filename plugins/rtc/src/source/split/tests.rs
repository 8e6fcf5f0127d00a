use super::*;

/// The cut of a domain with these reduced axes, whose only access is dense.
fn cut(dims: &[usize], reduced: &[bool]) -> Option<Cut> {
    let mut group = Group::new(Domain { dims: dims.to_vec(), reduced: Some(reduced.to_vec()) });
    let mut strides = [0; MAX_RANK];
    for axis in 0..dims.len() {
        strides[axis] = dims[axis + 1..].iter().product();
    }
    let access = Access { place: Place::Memory(1), data_type: DataType::Float, strides, alignment: 16 };
    group.accesses.push(access);
    Cut::of(&group)
}

#[test]
fn few_long_rows_are_split_into_equal_parts() {
    let long = cut(&[2, 1 << 17], &[false, true]).unwrap();
    assert_eq!((long.dims.as_slice(), long.axis), ([2, 1 << 12, 32].as_slice(), Some(1)));
    assert_eq!(long.parts(), Domain { dims: vec![2, 1, 32], reduced: Some(vec![false, false, true]) });
    // Several axes: whole ones, outermost first.
    let several = cut(&[2, 16, 3, 5000], &[false, true, true, true]).unwrap();
    assert_eq!((several.axis, several.inner), (None, vec![false, false, false, true]));
    assert_eq!(several.outer, [false, true, true, false]);
    // Enough rows, short rows, and a length without a suitable divisor.
    assert_eq!(cut(&[64, 1 << 20], &[false, true]), None);
    assert_eq!(cut(&[2, 1 << 15], &[false, true]), None);
    assert_eq!(cut(&[2, 131_071], &[false, true]), None);
}

#[test]
fn parts_are_as_many_as_divide_the_length_and_leave_vectors_whole() {
    assert_eq!(divisor(96_000, 23), 20);
    assert_eq!(divisor(70_005, 17), 15);
    assert_eq!(divisor(131_071, 32), 1);
}
