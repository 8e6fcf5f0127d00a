//! Public problem lists: those of the benchmarks of oneDNN, MIOpen and DeepBench, in `public_problems.txt`.

mod elements;
mod images;
mod problem;

use crate::case::Case;
use crate::suites::{Goal, Suite};
use problem::Problem;

const LIST: &str = include_str!("../../public_problems.txt");

/// No problem may take more than twice the time of the faster peer.
pub const LEAST: f64 = 0.5;

const fn suite(name: &'static str, about: &'static str, cases: fn() -> Vec<Case>) -> Suite {
    Suite { name, about, goal: Some(Goal::Least(LEAST)), cases }
}

/// One suite for each kind of problem.
pub const SUITES: &[Suite] = &[
    suite("public-conv", "convolutions and their gradients", || of("conv")),
    suite("public-pool", "pooling, alone and with its gradient", || of("pool")),
    suite("public-softmax", "softmax as five operations", || of("softmax")),
    suite("public-layernorm", "layer normalization", || of("layernorm")),
    suite("public-batchnorm", "batch normalization, inference and training", || of("batchnorm")),
    suite("public-reduce", "reductions", || of("reduce")),
    suite("public-eltwise", "functions of each element", || of("eltwise")),
    suite("public-binary", "operations on two tensors", || of("binary")),
    suite("public-matmul", "matmuls", || of("matmul")),
];

/// The case of a problem.
fn case(problem: &Problem) -> Result<Case, String> {
    match problem.kind.as_str() {
        "conv" => images::convolution(problem),
        "pool" => images::pooling(problem),
        "batchnorm" => images::batchnorm(problem),
        "softmax" => elements::softmax(problem),
        "layernorm" => elements::layernorm(problem),
        "reduce" => elements::reduction(problem),
        "eltwise" => elements::eltwise(problem),
        "binary" => elements::binary(problem),
        "matmul" => elements::matmul(problem),
        kind => Err(format!("{}: kind is {kind}", problem.text)),
    }
}

/// The suite of a problem, and the part of its line that names the case.
fn names(problem: &Problem) -> Option<(&'static str, String)> {
    let suite = SUITES.iter().find(|suite| suite.name.strip_prefix("public-") == Some(&problem.kind))?;
    Some((suite.name, problem.text.split_once(' ').map(|(_, rest)| rest.to_owned())?))
}

/// The problems of a kind. A test checks that every line is valid.
fn of(kind: &str) -> Vec<Case> {
    let problems = LIST.lines().filter_map(|line| Problem::parse(line).ok().flatten());
    problems.filter(|problem| problem.kind == kind).filter_map(|problem| case(&problem).ok()).collect()
}

/// A case of a problem without arrays.
fn empty(problem: &Problem, work: crate::case::Work) -> Result<Case, String> {
    let (suite, name) = names(problem).ok_or_else(|| format!("{}: no suite", problem.text))?;
    Ok(Case::new(suite, name, work))
}

/// Numbers with `x` between them.
fn joined(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_list_is_a_case() {
        let mut seen = std::collections::BTreeSet::new();
        for line in LIST.lines() {
            let Some(problem) = Problem::parse(line).unwrap() else { continue };
            let case = case(&problem).unwrap();
            assert!(!case.onnx.is_empty() || case.onednn.is_some(), "{line}: no peer");
            assert!(seen.insert((case.suite, case.name)), "{line}: twice");
        }
        let cases = SUITES.iter().map(|suite| (suite.cases)().len()).sum::<usize>();
        assert_eq!(cases, seen.len());
        assert!(cases >= 150, "{cases} problems");
    }
}
