//! Models of the table of handles.

use model::handles;

#[test]
fn another_uses_what_the_maker_destroys() {
    handles::another_uses_what_the_maker_destroys();
}

#[test]
fn the_maker_uses_what_another_destroys() {
    handles::the_maker_uses_what_another_destroys();
}

#[test]
fn two_destroy_and_a_third_uses() {
    handles::two_destroy_and_a_third_uses();
}

#[test]
fn a_place_is_filled_anew_while_its_old_handle_is_used() {
    handles::a_place_is_filled_anew_while_its_old_handle_is_used();
}

#[test]
fn one_changes_what_another_destroys() {
    handles::one_changes_what_another_destroys();
}

#[test]
fn two_change_what_one_destroys() {
    handles::two_change_what_one_destroys();
}

#[test]
fn a_thread_takes_what_another_kept() {
    handles::a_thread_takes_what_another_kept();
}

#[test]
fn a_handle_is_passed_on_by_a_number() {
    handles::a_handle_is_passed_on_by_a_number();
}
