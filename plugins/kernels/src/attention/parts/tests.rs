use super::count as parts_for;
use crate::attention::tests::{attention, check_parts, dropouts, some, tensor};
use crate::attention::{Attention, Band};
use crate::scalar::Scalar;
use crate::target::Target;

#[test]
fn workgroups_share_keys() {
    for (place, target) in some().into_iter().enumerate() {
        // More parts than blocks of keys leave some empty.
        for (queries, keys, parts) in [(1, 150, 3), (5, 70, 7)] {
            let scalar = [Scalar::F16, Scalar::F32][(place + queries) % 2];
            let mut own = attention(scalar, [queries, keys, 16, 24]);
            check_parts(&own, &target, parts);
            own.band = Band { left: Some(60), right: Some(0), bottom_right: true };
            own.sink = Some((Scalar::F32, 1));
            own.lengths = Some([(Scalar::I32, 1); 2]);
            check_parts(&own, &target, parts);
        }
    }
    let [random, _] = dropouts(20, 44);
    let own = Attention { dropout: Some(random), ..attention(Scalar::Bf16, [20, 44, 16, 17]) };
    check_parts(&own, &Target::of("gfx942").unwrap(), 2);
    check_parts(&attention(Scalar::F64, [2, 90, 8, 8]), &Target::of("sm_90").unwrap(), 2);
}

#[test]
fn few_queries_share_their_keys_where_units_would_be_idle() {
    let large = |batch, queries, keys| Attention {
        batch,
        heads: 32,
        queries,
        keys,
        o: tensor(Scalar::F16, [batch, 32, queries, 128]),
        ..attention(Scalar::F16, [queries, keys, 128, 128])
    };
    for name in ["gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_80", "sm_90"] {
        let target = Target::of(name).unwrap();
        let count = |own: &Attention| parts_for(own, &target);
        let one = count(&large(1, 1, 8192));
        assert!((2..=32).contains(&one), "{name}: {one}");
        assert!((2..=one).contains(&count(&large(1, 16, 8192))), "{name}");
        // Enough workgroups, few keys, and bits that may not depend on the number of rows.
        assert_eq!(count(&large(1, 4096, 8192)), 1, "{name}");
        assert_eq!(count(&large(256, 1, 8192)), 1, "{name}");
        assert_eq!(count(&large(1, 1, 128)), 1, "{name}");
        assert_eq!(count(&Attention { is_invariant: true, ..large(1, 1, 8192) }), 1, "{name}");
        assert_eq!(count(&Attention { largest: [true, false], ..large(1, 1, 8192) }), 1, "{name}");
    }
}
