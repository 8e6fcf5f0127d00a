use super::*;

#[test]
fn blocks_are_small_if_the_input_dominates() {
    for ([rows, channels], is_small) in
        [([64, 256], true), ([256, 512], true), ([256, 64], false), ([256, 256], false), ([512, 1024], false)]
    {
        let weights = rows * channels * size_of::<f32>();
        assert_eq!(largest(weights, Some([rows, channels])) < BLOCK, is_small, "{rows} {channels}");
        assert_eq!(largest(weights, None), BLOCK, "{rows} {channels}");
    }
}

#[test]
fn divisions_stay_within_the_problem_and_the_cache() {
    for tiles in [1, 2, 5, 17, 66, 1045] {
        for panels in [1, 4, 8, 64, 256] {
            for most in [1, 3, 16] {
                for workers in [1, 2, 5, 64] {
                    let (block, chunks) = division([tiles, panels, 1], most, workers, [1.0, 0.125]);
                    assert!(
                        (1..=most.min(tiles)).contains(&block),
                        "{tiles} {panels} {most} {workers}: {block}"
                    );
                    assert!((1..=panels).contains(&chunks), "{tiles} {panels} {most} {workers}: {chunks}");
                }
            }
        }
    }
    // By tiles if there are many, else also by rows, so that no worker idles.
    let (block, chunks) = division([1045, 64, 1], 16, 2, [1.0, 0.125]);
    assert!(block > 8 && chunks < 8, "{block} {chunks}");
    for tiles in [1, 2, 3] {
        let (block, chunks) = division([tiles, 64, 1], 16, 2, [1.0, 0.125]);
        assert!(tiles.div_ceil(block) * chunks >= 4, "{tiles}: {block} {chunks}");
    }
    // Larger blocks if reading weights is expensive.
    let of = |read: f64| division([17, 64, 1], 16, 2, [1.0, read]).0;
    assert!(of(2.0) > of(0.0), "{} {}", of(0.0), of(2.0));
}
