use crate::gemm::byte_kernel::{ByteKernel, Form};
use crate::gemm::byte_tile::{ByteTile, GROUP};
use crate::gemm::session::Session;
use crate::simd::isa::Isa;
use crate::testing::Random;

/// A random byte, with the ends of the ranges more frequent.
fn byte(random: &mut Random) -> u8 {
    let any = random.next() as u8;
    random.of(&[0, 1, 127, 128, 129, 255, any, any])
}

/// Every form computes the formula with every tile size, and writes nothing outside the tile.
#[test]
fn tiles_of_every_form_and_size_are_exact() {
    let random = &mut Random::new(81);
    for form in Form::available(Isa::detect()) {
        let kernel = ByteKernel::of(form);
        let _session = Session::of(form.has_tiles());
        for (rows, groups) in
            (1..=kernel.rows).flat_map(|rows| (1..=kernel.groups).map(move |groups| (rows, groups)))
        {
            for is_signed in [false, true].into_iter().filter(|signed| kernel.takes_signed || !signed) {
                let k = random.within(1, 5) * kernel.terms;
                let a_stride = k + random.of(&[0, 3, 64]);
                let columns = groups * GROUP;
                let a: Vec<u8> =
                    (0..rows.next_multiple_of(kernel.row_step) * a_stride).map(|_| byte(random)).collect();
                let b: Vec<u8> = (0..k * columns).map(|_| byte(random)).collect();
                let room = rows.next_multiple_of(kernel.row_step);
                let mut to = vec![7; room * (columns + 1)];
                let tile = ByteTile {
                    a: a.as_ptr(),
                    a_stride,
                    is_signed,
                    b: b.as_ptr(),
                    words: k / 4,
                    to: to.as_mut_ptr(),
                    to_stride: columns + 1,
                };
                // SAFETY: operands and room have the rows, columns and terms, and the session is alive.
                unsafe { kernel.run(&tile, rows, groups) };
                for row in 0..rows {
                    for j in 0..columns {
                        let terms = (0..k).map(|l| {
                            let a = a[row * a_stride + l];
                            let a = if is_signed { i32::from(a.cast_signed()) } else { i32::from(a) };
                            a * i32::from(b[l / 4 * columns * 4 + j * 4 + l % 4].cast_signed())
                        });
                        let (got, expected) = (to[row * (columns + 1) + j], terms.sum::<i32>());
                        assert_eq!(got, expected, "{form:?}: {rows} rows, {groups} groups, at {row}, {j}");
                    }
                    assert_eq!(
                        to[row * (columns + 1) + columns],
                        7,
                        "{form:?}: {rows} rows, {groups} groups"
                    );
                }
            }
        }
    }
}
