//! The training example on the emulated device: compares the losses of its first steps with the reference engine's.

use std::fs;

use super::{INSIDE, LIMIT, inside};
use crate::Failure;
use crate::c_program::{Language, Program};
use crate::process::run_within;
use crate::userland::Userland;
use crate::workspace::Workspace;

const SOURCE: &str = "examples_c/train_digits.c";
const DATA: &str = "examples_c/data/digits.csv";

/// The number of training steps; later losses accumulate rounding errors.
const STEPS: &str = "4";

/// The tolerance of a loss, relative.
const TOLERANCE: f64 = 1e-4;

/// The engine that computes the losses to compare with.
const REFERENCE: &str = "CPU_REFERENCE_ENGINE";

/// Trains on the processor and on the device.
pub fn train(workspace: &Workspace, userland: &Userland, rig: &str) -> Result<String, Failure> {
    let to = userland.path(INSIDE);
    let source = workspace.path(SOURCE);
    Program { language: Language::C, source: &source, optimize: true, strict: true, libraries: &["-lm"] }
        .build_with(
            &workspace.path("include"),
            &workspace.release_dir(),
            &format!("/{INSIDE}/lib"),
            &to.join("train_digits"),
        )?;
    fs::copy(workspace.path(DATA), to.join("digits.csv"))?;
    let (program, data) = (format!("/{INSIDE}/train_digits"), format!("/{INSIDE}/digits.csv"));
    let words = [program.as_str(), "--steps", STEPS, &data];
    let expected = run_within(userland.command(&words).arg(REFERENCE), LIMIT)?;
    let got = run_within(inside(userland, rig, &words).arg("--device"), LIMIT)?;
    let worst = compare(&expected, &got)?;
    let engines = engines(&got)?;
    Ok(format!("losses within {worst:.0e}; {engines}"))
}

/// The losses of the steps, in their order.
fn losses(out: &str) -> Vec<f64> {
    let lines = out.lines().filter(|line| line.starts_with("step "));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

/// The largest relative difference of two runs' losses.
fn compare(expected: &str, got: &str) -> Result<f64, Failure> {
    let (wanted, found) = (losses(expected), losses(got));
    let worst = wanted.iter().zip(&found).map(|(a, b)| ((a - b) / a).abs()).fold(0.0, f64::max);
    let numbers = wanted.iter().chain(&found).all(|loss| loss.is_finite());
    if wanted.is_empty() || wanted.len() != found.len() || !numbers || worst > TOLERANCE {
        return Err(Failure::new(format!(
            "losses {found:?}, expected {wanted:?} within a share of {TOLERANCE}\n{got}"
        )));
    }
    Ok(worst)
}

/// The engines of the graphs, which must be several of the device's.
fn engines(out: &str) -> Result<String, Failure> {
    let graphs = out.lines().filter(|line| line.starts_with("Graph "));
    let names: Vec<&str> = graphs.filter_map(|line| line.split_whitespace().next_back()).collect();
    let count = |name: &str| names.iter().filter(|engine| **engine == name).count();
    let (miopen, rtc) = (count("MIOPEN_ENGINE"), count("HIPRTC_ENGINE"));
    if miopen == 0 || rtc == 0 || miopen + rtc != names.len() {
        return Err(Failure::new(format!("the graphs are computed by {}", names.join(", "))));
    }
    Ok(format!("{miopen} graphs by MIOPEN_ENGINE, {rtc} by HIPRTC_ENGINE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_differ_or_are_missing_are_found() {
        let run = "step 1 loss 2.0\nstep 2 loss 1.5\nGraph 1  MIOPEN_ENGINE\nGraph 2  HIPRTC_ENGINE\n";
        assert_eq!(compare(run, run).unwrap(), 0.0);
        for other in [
            "step 1 loss 2.0\nstep 2 loss 1.6\n",
            "step 1 loss 2.0\n",
            "step 1 loss 2\nstep 2 loss nan\n",
            "",
        ] {
            assert!(compare(run, other).is_err() && compare(other, run).is_err(), "{other}");
        }
        assert!(compare("", "").is_err());
        assert_eq!(engines(run).unwrap(), "1 graphs by MIOPEN_ENGINE, 1 by HIPRTC_ENGINE");
        assert!(engines("Graph 1  CPU_ENGINE\nGraph 2  MIOPEN_ENGINE\nGraph 3  HIPRTC_ENGINE").is_err());
        assert!(engines("Graph 1  MIOPEN_ENGINE").is_err());
    }
}
