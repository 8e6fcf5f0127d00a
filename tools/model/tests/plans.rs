//! Models of the plan cache.

use model::plans;

#[test]
fn two_threads_plan_equal_graphs() {
    plans::two_threads_plan_equal_graphs();
}

#[test]
fn all_is_forgotten_while_a_thread_plans() {
    plans::all_is_forgotten_while_a_thread_plans();
}

#[test]
fn a_plan_is_held_beyond_its_handle() {
    plans::a_plan_is_held_beyond_its_handle();
}

#[test]
fn a_plan_is_found_by_another_handle() {
    plans::a_plan_is_found_by_another_handle();
}
