use std::collections::HashSet;

use super::*;

const ARCHITECTURES: [&str; 18] = [
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1036", "gfx1100",
    "gfx1101", "gfx1151", "gfx1200", "gfx1201", "sm_75", "sm_80", "sm_90", "sm_120",
];

/// Every element of a tile is in exactly one slot of a sum, and in at least one of an operand.
#[test]
fn fragments_cover_their_tiles() {
    for architecture in ARCHITECTURES {
        let target = Target::of(architecture).unwrap();
        for shape in &target.shapes {
            for role in [Role::A, Role::B, Role::Accumulator] {
                let fragment = shape.fragment(role).unwrap();
                let (rows, columns) = shape.dims(role);
                let mut seen = HashSet::new();
                let mut count = 0;
                for lane in 0..target.subgroup {
                    for slot in 0..fragment.slots.len() {
                        let (row, column) = fragment.at(lane, slot);
                        assert!(row < rows && column < columns, "{architecture} {shape:?} {role:?}");
                        seen.insert((row, column));
                        count += 1;
                    }
                }
                assert_eq!(seen.len() as u32, rows * columns, "{architecture} {shape:?} {role:?}");
                assert!(role != Role::Accumulator || count == rows * columns, "{architecture} {shape:?}");
            }
        }
        for operand in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::I8] {
            assert!(target.shape(operand).is_some(), "{architecture} {operand:?}");
        }
    }
}

#[test]
fn names_of_other_devices_have_no_target() {
    for name in ["", "gfx", "gfx1", "sm_", "sm_x", "vulkan", "gfxabc0"] {
        assert_eq!(Target::of(name), None, "{name}");
    }
    assert_eq!(Target::of("gfx90a:sramecc+:xnack-").unwrap().name, "gfx90a");
}
