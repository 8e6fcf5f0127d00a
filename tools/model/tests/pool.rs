//! Models of the thread pool.

use model::pool;

#[test]
fn every_worker_runs_once() {
    pool::every_worker_runs_once();
}

#[test]
fn works_follow_each_other() {
    pool::works_follow_each_other();
}

#[test]
fn two_threads_share_the_work() {
    pool::two_threads_share_the_work();
}

#[test]
fn a_pool_that_has_worked_grows() {
    pool::a_pool_that_has_worked_grows();
}

#[test]
fn two_callers_at_the_same_time() {
    pool::two_callers_at_the_same_time();
}

#[test]
fn a_panic_reaches_the_caller() {
    pool::a_panic_reaches_the_caller();
}

#[test]
fn a_team_ends_its_threads() {
    pool::a_team_ends_its_threads();
}

#[test]
fn each_part_is_taken_once() {
    pool::each_part_is_taken_once();
}
