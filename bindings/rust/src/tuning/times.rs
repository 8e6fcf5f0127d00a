//! Statistics of execution times.

use std::time::Duration;

use serde::Serialize;

/// Statistics of execution times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The median.
    pub median_ms: f64,
    /// The lower quartile.
    pub lower_quartile_ms: f64,
    /// The upper quartile.
    pub upper_quartile_ms: f64,
    /// The shortest.
    pub least_ms: f64,
    /// The number of executions.
    pub runs: usize,
}

impl Times {
    /// Summarizes durations; all values are 0 for an empty list.
    pub fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let at = |part: f64| -> f64 {
            let place = part * durations.len().saturating_sub(1) as f64;
            let value = |place: f64| durations.get(place as usize).map_or(0.0, |d| d.as_secs_f64() * 1e3);
            let (low, high) = (value(place.floor()), value(place.ceil()));
            low + (high - low) * place.fract()
        };
        Self {
            median_ms: at(0.5),
            lower_quartile_ms: at(0.25),
            upper_quartile_ms: at(0.75),
            least_ms: at(0.0),
            runs: durations.len(),
        }
    }
}

/// The median duration; none for an empty list.
pub(super) fn median(durations: &[Duration]) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied()?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(middle.checked_sub(1)?).map(|lower| (*lower + upper) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_samples() {
        let times = Times::of([4, 1, 3, 2].map(Duration::from_millis).to_vec());
        let wanted = Times {
            median_ms: 2.5,
            lower_quartile_ms: 1.75,
            upper_quartile_ms: 3.25,
            least_ms: 1.0,
            runs: 4,
        };
        assert_eq!(times, wanted);
        assert_eq!(median(&[4, 1, 3, 2].map(Duration::from_millis)), Some(Duration::from_micros(2500)));
        assert_eq!(median(&[]), None);
    }
}
