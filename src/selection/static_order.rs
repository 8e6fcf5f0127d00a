//! The order in which engines are offered when nothing is known of the graph.

use crate::plugin::engine_id;

const MIOPEN: i64 = engine_id("MIOPEN_ENGINE");
const DETERMINISTIC: i64 = engine_id("MIOPEN_ENGINE_DETERMINISTIC");

/// The CPU engines, which come after all others: whoever has a GPU engine wants that.
const CPU: [i64; 2] = [engine_id("CPU_ENGINE"), engine_id("CPU_REFERENCE_ENGINE")];

fn rank(engine: i64) -> u8 {
    match engine {
        MIOPEN => 0,
        DETERMINISTIC => 2,
        engine if CPU.contains(&engine) => 3,
        _ => 1,
    }
}

/// MIOpen's engine first, its deterministic one behind the others, CPU engines last. Otherwise the order stays: plugins by
/// path, engines as their plugin lists them.
pub fn order(engines: &mut [i64]) {
    engines.sort_by_key(|engine| rank(*engine));
}

/// Those of the preferred engines that there are, best first; none where there are none of them.
pub fn preferred(engines: &[i64], preferred: &[i64]) -> Vec<i64> {
    let mut chosen: Vec<i64> = Vec::new();
    for engine in preferred {
        if engines.contains(engine) && !chosen.contains(engine) {
            chosen.push(*engine);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miopen_is_first_and_cpu_engines_are_last() {
        let [fast, reference] = CPU;
        let mut engines = vec![reference, fast, DETERMINISTIC, 7, MIOPEN, 5];
        order(&mut engines);
        assert_eq!(engines, [MIOPEN, 7, 5, DETERMINISTIC, reference, fast]);
    }

    #[test]
    fn preferred_engines_are_those_that_there_are_once_each() {
        assert_eq!(preferred(&[1, 2, 3], &[3, 9, 1, 3]), [3, 1]);
        assert!(preferred(&[1, 2, 3], &[9]).is_empty());
        assert!(preferred(&[1, 2, 3], &[]).is_empty());
    }
}
