//! Steps reported to a host, in a single test because a plugin has one callback.

use std::cell::RefCell;

use super::*;
use hipdnn_plugin_sdk::trace;

thread_local! {
    static STEPS: RefCell<Vec<(String, u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// # Safety
/// `name` ends with a NUL.
unsafe extern "C" fn keep(name: *const c_char, begin: u64, end: u64) {
    // SAFETY: the name is NUL terminated.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned();
    STEPS.with_borrow_mut(|steps| steps.push((name, begin, end)));
}

#[test]
fn steps_are_reported_while_a_callback_is_set() {
    assert!(trace::steps().is_none());
    // SAFETY: the callback stays as long as the test runs.
    assert_eq!(unsafe { hipdnnEnginePluginSetStepCallback_ext(Some(keep)) }, OK);
    let begin = trace::now();
    let end = trace::steps().unwrap().tell(c"one", begin);
    assert!(end >= begin);
    assert_eq!(STEPS.take(), [("one".to_owned(), begin, end)]);
    // SAFETY: no callback is passed, so that the plugin calls none.
    assert_eq!(unsafe { hipdnnEnginePluginSetStepCallback_ext(None) }, OK);
    assert!(trace::steps().is_none());
}
