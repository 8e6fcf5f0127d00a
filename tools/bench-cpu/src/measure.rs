//! Measures a case: ours and each peer in turn, in several rounds.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hipdnn::{Backend, Handle};
use hipdnn_tool::failure::{Failure, Result};
use serde_json::{Value, json};

use crate::array::{difference, read, read_bytes, steps};
use crate::case::{Case, Work};
use crate::machine::Gauge;
use crate::ours::{Ours, Weights, inputs};
use crate::peer::{Files, Kind, Peer};

/// The tolerance relative to the largest magnitude: single-precision rounding of sums of some thousand products stays far
/// below.
const TOLERANCE: f64 = 2e-4;

/// The percentage of bytes that may differ by one step, since sums are rounded in another order.
const BYTES_APART: f64 = 2.0;

/// The pause between two of our bursts: about the time that a peer's threads take to sleep.
const REST: Duration = Duration::from_millis(4);

/// The effort of a measurement.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds, each with a burst of every library.
    pub rounds: usize,
    /// The minimum length of a burst.
    pub burst: Duration,
    /// How long to measure the machine's peak in each round.
    pub limit: Duration,
}

/// The results of a case.
#[derive(Clone)]
pub struct Row {
    /// The suite.
    pub suite: &'static str,
    /// The case.
    pub case: String,
    /// Our median, in milliseconds.
    pub ours: f64,
    /// The same without the promise of constant weights; NaN without weights.
    pub unpromised: f64,
    /// Making the plan and the first execution, in milliseconds.
    pub first: f64,
    /// The peers that have the case, the best one first.
    pub peers: Vec<Found>,
    /// Another version of this library, if other libraries are also measured.
    pub before: Option<Found>,
    /// The amount of work.
    pub work: Work,
    /// The fraction of the machine's peak: the median of the rounds, each of which measures both.
    pub share: f64,
    /// The failure, if any.
    pub failure: Option<String>,
}

/// The results of a peer.
#[derive(Clone)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its median, in milliseconds.
    pub ms: f64,
    /// The median of its time over ours, round by round: more than 1 where ours is faster.
    pub ratio: f64,
    /// The same relative to our time without the promise; NaN without weights.
    pub unpromised: f64,
}

/// The median, NaN if empty.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(f64::NAN);
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted.get(middle.wrapping_sub(1)).copied().unwrap_or(f64::NAN), upper),
        _ => upper,
    }
}

/// A number for the record; none for NaN.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The geometric mean, NaN if empty.
pub fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for number in numbers {
        sum += number.ln();
        count += 1.0;
    }
    f64::exp(sum / count)
}

/// GFLOP/s or GB/s of work done in so many milliseconds.
fn rate(work: Work, ms: f64) -> f64 {
    let (Work::Operations(amount) | Work::Bytes(amount)) = work;
    amount / ms / 1e6
}

impl Row {
    /// GFLOP/s or GB/s.
    pub fn rate(&self) -> f64 {
        rate(self.work, self.ours)
    }

    /// The best peer, if there is any.
    pub fn peer(&self) -> Option<&Found> {
        self.peers.first()
    }

    /// For a record.
    pub fn json(&self) -> Value {
        json!({
            "suite": self.suite, "case": self.case, "ours_ms": self.ours,
            "unpromised_ms": number(self.unpromised), "first_ms": self.first,
            "peers": self.peers.iter().map(|peer| json!({"name": peer.name, "ms": peer.ms, "ratio": peer.ratio,
                "ratio_unpromised": number(peer.unpromised)})).collect::<Vec<_>>(),
            "unit": match self.work { Work::Operations(_) => "GFLOP/s", Work::Bytes(_) => "GB/s" },
            "rate": self.rate(), "share": self.share, "failure": self.failure,
        })
    }
}

/// The common state of all cases.
pub struct Bench<'b> {
    /// The library.
    pub backend: &'b Backend,
    /// A handle of it.
    pub handle: &'b Handle,
    /// Our engine.
    pub engine: i64,
    /// The others.
    pub peers: Vec<Peer>,
    /// The gauge of the machine's peak.
    pub gauge: Gauge,
    /// The effort.
    pub effort: Effort,
    /// A folder for arrays.
    pub folder: &'b Path,
}

impl Bench<'_> {
    /// Measures a case. Failures are in the row.
    pub fn measure(&mut self, case: &Case) -> Row {
        let mut row = Row {
            suite: case.suite,
            case: case.name.clone(),
            ours: f64::NAN,
            unpromised: f64::NAN,
            first: f64::NAN,
            peers: Vec::new(),
            before: None,
            work: case.work,
            share: f64::NAN,
            failure: None,
        };
        if let Err(failure) = self.fill(case, &mut row) {
            row.failure = Some(failure.to_string());
        }
        row
    }

    fn fill(&mut self, case: &Case, row: &mut Row) -> Result<()> {
        fs::create_dir_all(self.folder)
            .map_err(|error| Failure::work(format!("{}: {error}", self.folder.display())))?;
        let files = Files { folder: self.folder };
        let arrays = inputs(case);
        for (input, (_, array)) in case.inputs.iter().zip(&arrays) {
            array.write(&files.input(input.name))?;
        }
        let ours = Ours::new(self.handle, self.backend, self.engine, case, arrays)?;
        row.first = 1000.0 * ours.first.as_secs_f64();
        let mut wrong = Vec::new();
        let mut able = Vec::new();
        for peer in self.peers.iter_mut().filter(|peer| peer.has(case)) {
            if let Err(failure) = peer.make(case, &files) {
                wrong.push(failure.to_string());
                continue;
            }
            for weights in ours.ways() {
                ours.run(*weights)?;
                match compare(case, &ours, &files) {
                    Ok(Some(text)) => wrong.push(format!("not as {}: {text}", peer.name)),
                    Ok(None) => {}
                    Err(failure) => wrong.push(failure.to_string()),
                }
            }
            able.push((peer, Vec::new()));
        }
        let (mut times, mut unpromised, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        let Effort { rounds, burst, limit } = self.effort;
        for round in 0..rounds {
            // Alternate the order, since caches and clock rates differ between the first and the last.
            let ours_first = round % 2 == 0;
            if !ours_first {
                each(&mut able, burst)?;
            }
            let mine = ours.burst(Weights::Promised, burst)?;
            if ours.ways().contains(&Weights::Any) {
                // Every library starts after a pause.
                std::thread::sleep(REST);
                unpromised.push(ours.burst(Weights::Any, burst)?);
            }
            let most = match case.work {
                Work::Operations(_) => self.gauge.peak(limit),
                Work::Bytes(_) => self.gauge.copy(limit),
            };
            times.push(mine);
            shares.push(rate(case.work, mine) / most);
            if ours_first {
                each(&mut able, burst)?;
            }
        }
        row.ours = median(&times);
        row.unpromised = median(&unpromised);
        row.share = median(&shares);
        let ratio = |theirs: &[f64], times: &[f64]| {
            median(&theirs.iter().zip(times).map(|(theirs, mine)| theirs / mine).collect::<Vec<_>>())
        };
        let is_version = |peer: &Peer| peer.kind() == Kind::Version;
        let beside = able.iter().any(|(peer, _)| !is_version(peer));
        let version = able.iter().find(|(peer, _)| is_version(peer)).map(|(peer, _)| peer.name.clone());
        let version = version.unwrap_or_default();
        let found = able.into_iter().map(|(peer, theirs)| Found {
            name: peer.name.clone(),
            ms: median(&theirs),
            ratio: ratio(&theirs, &times),
            unpromised: ratio(&theirs, &unpromised),
        });
        let (before, peers): (Vec<_>, Vec<_>) = found.partition(|found| beside && found.name == version);
        row.before = before.into_iter().next();
        row.peers = peers;
        row.peers.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        if wrong.is_empty() { Ok(()) } else { Err(Failure::work(wrong.join("; "))) }
    }
}

/// A burst of each peer.
fn each(peers: &mut [(&mut Peer, Vec<f64>)], length: Duration) -> Result<()> {
    for (peer, times) in peers {
        times.push(peer.burst(length)?);
        peer.settle();
    }
    Ok(())
}

/// Describes the first result that differs from the peer's.
fn compare(case: &Case, ours: &Ours, files: &Files) -> Result<Option<String>> {
    for output in &case.outputs {
        let (Some(name), Some(array)) = (output.name, ours.array(output.uid)) else { continue };
        if let Some(stored) = &output.stored {
            let found = steps(array, &read_bytes(&files.output(name))?, stored.data_type == "int8");
            match found {
                Some((0..=1, share)) if share <= BYTES_APART => continue,
                found => return Ok(Some(format!("{name}: steps and share of bytes that differ {found:?}"))),
            }
        }
        let away = difference(array, &read(&files.output(name))?);
        if away > TOLERANCE {
            return Ok(Some(format!(
                "{name} differs by {away:.1e} of its largest, {TOLERANCE:.0e} is allowed"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_means() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert!((mean([1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
