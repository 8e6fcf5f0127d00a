use std::cell::RefCell;

use super::*;

/// Asks for the plan of a tensor of this length; the plan is the length itself.
fn ask(others: &Others<i64>, length: i64, left: &RefCell<Vec<i64>>) -> Arc<i64> {
    let (dims, strides) = ([length], [1_i64]);
    // SAFETY: each array has one element, and so have those that they point to.
    let overrides = unsafe {
        Overrides::from_raw(
            1,
            [7].as_ptr(),
            [1].as_ptr(),
            [dims.as_ptr()].as_ptr(),
            [strides.as_ptr()].as_ptr(),
        )
        .map(|overrides| others.plan(overrides, || Ok(length), |plan| left.borrow_mut().push(*plan)))
    };
    overrides.unwrap().unwrap()
}

#[test]
fn the_least_recently_used_plan_is_evicted() {
    let (others, left, most) = (Others::default(), RefCell::default(), KEPT as i64);
    for length in 0..most {
        ask(&others, length, &left);
    }
    assert!(left.borrow().is_empty());
    ask(&others, 0, &left);
    ask(&others, most, &left);
    assert_eq!((&*left.borrow(), others.kept().len()), (&vec![1], KEPT));
}

#[test]
fn a_plan_that_a_thread_executes_stays() {
    let (others, left, most) = (Others::default(), RefCell::default(), KEPT as i64);
    let executed: Vec<_> = (0..2 * most).map(|length| ask(&others, length, &left)).collect();
    assert!(left.borrow().is_empty() && others.kept().len() == 2 * KEPT);
    drop(executed);
    ask(&others, 2 * most, &left);
    assert_eq!((&*left.borrow(), others.kept().len()), (&(0..=most).collect(), KEPT));
}
