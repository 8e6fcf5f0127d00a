//! `hipdnn run --invariant`

use crate::run::case;
use crate::{example, hipdnn, refuse, succeed};

const EQUAL: &str = "\neach item has the same bits in every run\n";

#[test]
fn items_depend_on_their_own_operands_alone() {
    for name in ["layernorm", "matmul", "attention"] {
        let out = succeed(&["run", &example(name), "--invariant", "--engine", "CPU_ENGINE"]);
        assert!(out.ends_with(EQUAL), "{name}: {out}");
    }
    let out = succeed(&["run", &case("loss_sum_in_half"), "--invariant", "--engine", "CPU_ENGINE"]);
    for run in [
        "batch 8",
        "batch 1",
        "batch 7",
        "batch 32",
        "batch 8, permuted",
        "batch 32, permuted",
        "batch 32, other addresses",
        "batch 8, threads 1",
        "batch 32, threads 7",
        "batch 32, threads 16",
    ] {
        let is_equal = |line: &str| {
            let mut cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.next() == Some(run) && cells.next() == Some("equal")
        };
        assert!(out.lines().any(is_equal), "{run}: {out}");
    }
}

/// CPU_ENGINE divides long sums into more parts if there are fewer of them.
#[test]
fn an_item_that_depends_on_the_size_of_its_batch_is_shown() {
    let arguments = ["run", &case("long_sums"), "--invariant", "--engine"];
    let answer = hipdnn(&[&arguments[..], &["CPU_ENGINE"]].concat());
    assert_eq!(answer.status, 1, "{}", answer.out);
    assert!(answer.err.starts_with("hipdnn: CPU_ENGINE does not compute items alike: "), "{}", answer.err);
    let last = answer.out.lines().last().unwrap();
    assert!(last.starts_with("the first difference: y, item 0, element [0]: "), "{last}");
    assert!(last.contains(" in \"batch 1\", ") && last.ends_with(" in \"batch 2\""), "{last}");
    assert!(succeed(&[&arguments[..], &["CPU_REFERENCE_ENGINE"]].concat()).ends_with(EQUAL));
}

#[test]
fn a_batch_that_cannot_be_told_is_refused() {
    let line = refuse(&["run", &example("batchnorm"), "--invariant"], 1);
    let words =
        "hipdnn: the batch cannot be told: node 0 \"bn\" (Batchnorm) has statistics of the whole batch";
    assert_eq!(line, words);
    let line = refuse(&["run", &example("matmul"), "--invariant", "--check"], 2);
    assert!(line.contains("--check"), "{line}");
}
