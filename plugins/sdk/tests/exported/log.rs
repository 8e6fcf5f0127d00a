//! Log lines and reasons for refusals, in a single test because a plugin has one callback and one level.

use std::cell::RefCell;

use super::*;
use hipdnn_plugin_sdk::log;

thread_local! {
    static LINES: RefCell<Vec<(hipdnnSeverity_t, String)>> = const { RefCell::new(Vec::new()) };
}

// Other tests log on other threads.
/// # Safety
/// `message` ends with a NUL.
unsafe extern "C" fn keep(severity: hipdnnSeverity_t, message: *const c_char) {
    // SAFETY: the message is NUL terminated.
    let line = unsafe { CStr::from_ptr(message) }.to_str().unwrap().to_owned();
    LINES.with_borrow_mut(|lines| lines.push((severity, line)));
}

fn lines() -> Vec<(hipdnnSeverity_t, String)> {
    LINES.with_borrow_mut(std::mem::take)
}

fn refused() -> (hipdnnSeverity_t, String) {
    (HIPDNN_SEV_INFO, "FIRST_ENGINE: too slow for this".into())
}

#[test]
fn lines_obey_the_level_and_refusals_reach_the_host_at_any() {
    let handle = Handle::new();
    let bytes = graph("only the second");
    let ask = || {
        let mut count = 0;
        // SAFETY: the handle is alive, the graph lives during the call, and the function writes only to the local `count`, having room
        // for no id.
        let status = unsafe {
            hipdnnEnginePluginGetApplicableEngineIds(handle.0, &data(&bytes), null_mut(), 0, &mut count)
        };
        assert_eq!((status, count), (OK, 1));
    };
    log::error("before there is a callback");
    ask();
    assert!(!log::enabled(HIPDNN_SEV_FATAL));

    // SAFETY: the callback stays as long as the test runs.
    assert_eq!(unsafe { hipdnnPluginSetLoggingCallback(Some(keep)) }, OK);
    assert_eq!(lines(), []);
    log::info(format_args!("{} tensors", 2));
    ask();
    assert_eq!(lines(), [(HIPDNN_SEV_INFO, "Probe: 2 tensors".into()), refused()]);

    for (level, heard) in
        [(HIPDNN_SEV_INFO, 3), (HIPDNN_SEV_WARN, 2), (HIPDNN_SEV_ERROR, 1), (HIPDNN_SEV_OFF, 0)]
    {
        // SAFETY: the function checks the number, and takes no pointer.
        assert_eq!(unsafe { hipdnnPluginSetLogLevel(level) }, OK);
        assert_eq!(log::enabled(HIPDNN_SEV_WARN), heard >= 2);
        log::info("i");
        log::warn("w");
        log::error("e");
        let expected = [
            (HIPDNN_SEV_INFO, "Probe: i".to_owned()),
            (HIPDNN_SEV_WARN, "Probe: w".to_owned()),
            (HIPDNN_SEV_ERROR, "Probe: e".to_owned()),
        ];
        assert_eq!(lines(), expected[3 - heard..]);
        ask();
        assert_eq!(lines(), [refused()]);
        drop(crate::execution::Context::new(&handle, "", &config("SECOND_ENGINE", Some(1))));
        let ignored = "Probe: engine SECOND_ENGINE: knob \"workspace\" is set to 1, expected none, as the engine has no knobs; ignored";
        assert_eq!(lines(), [(HIPDNN_SEV_WARN, ignored.to_owned())][..usize::from(heard >= 2)]);
    }
    for level in [-1, 5, i32::MAX] {
        // SAFETY: the function checks the number, and takes no pointer.
        assert_eq!(unsafe { hipdnnPluginSetLogLevel(level) }, BAD_PARAM);
        assert_eq!(text(), format!("level is {level}, expected 0 (info) to 4 (off)"));
    }
    // SAFETY: null is a valid callback.
    assert_eq!(unsafe { hipdnnPluginSetLoggingCallback(None) }, OK);
    ask();
    assert_eq!(lines(), []);
}
