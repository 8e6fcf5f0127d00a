use super::*;

fn refused(result: Result<(), GraphError>) -> String {
    result.unwrap_err().to_string()
}

fn setting_of(id: &str, value: impl Into<KnobValue>) -> KnobSetting {
    KnobSetting { knob_id: id.to_owned(), value: value.into() }
}

#[test]
fn integers_keep_to_range_step_and_list() {
    let even = KnobConstraint::Int { min: 2, max: 10, step: 4, valid: vec![] };
    let knob = Knob::new("k", "", 2.into(), Some(even));
    knob.verify().unwrap();
    for good in [2, 6, 10] {
        knob.check(&good.into()).unwrap();
    }
    for bad in [0, 3, 4, 11, 14, -2, i64::MIN, i64::MAX] {
        let error = refused(knob.check(&bad.into()));
        assert_eq!(error, format!("knob \"k\" is {bad}, expected an integer from 2 to 10 in steps of 4"));
    }
    let listed = Knob::one_of_ints("k", "", 3, &[3, 5]);
    listed.check(&5.into()).unwrap();
    assert_eq!(refused(listed.check(&4.into())), "knob \"k\" is 4, expected an integer, one of 3, 5");
    let whole = KnobConstraint::Int { min: i64::MIN, max: i64::MAX, step: 1, valid: vec![] };
    let whole = Knob::new("k", "", 0.into(), Some(whole));
    whole.check(&i64::MAX.into()).unwrap();
    whole.check(&i64::MIN.into()).unwrap();
}

#[test]
fn no_range_is_no_limit() {
    let knob = |constraint| Knob::new("k", "", 0.into(), constraint);
    for constraint in [None, Some(KnobConstraint::Int { min: 0, max: 0, step: 1, valid: vec![] })] {
        for value in [i64::MIN, -1, 0, 7, i64::MAX] {
            knob(constraint.clone()).check(&value.into()).unwrap();
        }
    }
    Knob::float("k", "", 1e300, 0.0, 0.0).verify().unwrap();
    Knob::text("k", "", "long enough", 0).verify().unwrap();
}

#[test]
fn numbers_and_texts_keep_to_their_limits() {
    let float = Knob::float("f", "", 0.5, 0.0, 1.0);
    float.check(&1.0.into()).unwrap();
    let error = refused(float.check(&1.5.into()));
    assert_eq!(error, "knob \"f\" is 1.5, expected a double precision number from 0.0 to 1.0");
    assert!(refused(float.check(&f64::NAN.into())).contains("NaN"));
    assert!(refused(float.check(&1.into())).contains("1, which is an integer, expected a double"));
    let text = Knob::text("t", "", "abc", 3);
    assert!(refused(text.check(&"abcd".into())).contains("\"abcd\", expected a text of at most 3 bytes"));
    let mode = Knob::one_of_texts("m", "", "fast", &["fast", "slow"]);
    mode.check(&"slow".into()).unwrap();
    let error = refused(mode.check(&"Slow".into()));
    assert_eq!(error, "knob \"m\" is \"Slow\", expected a text, one of \"fast\", \"slow\"");
}

#[test]
fn invalid_knobs_are_detected() {
    assert!(refused(Knob::flag("", "", true).verify()).contains("0 bytes, expected 1 to 4096"));
    assert!(refused(Knob::flag(&"i".repeat(4097), "", true).verify()).contains("4097 bytes"));
    Knob::flag(&"i".repeat(4096), &"d".repeat(65536), true).verify().unwrap();
    assert!(refused(Knob::flag("k", &"d".repeat(65537), true).verify()).contains("65537 bytes"));
    assert!(refused(Knob::text("k", "", &"t".repeat(65537), 0).verify()).contains("65537 bytes"));
    assert!(refused(Knob::int("k", "", 9, 0, 8).verify()).contains("the default value is 9, expected"));
    assert!(refused(Knob::int("k", "", 9, 8, 1).verify()).contains("minimum 8 is above the maximum 1"));
    assert!(refused(Knob::float("k", "", 0.0, f64::NAN, 1.0).verify()).contains("NaN"));
    assert!(refused(Knob::text("k", "", "", -1).verify()).contains("-1, expected more than 0"));
    let backwards = KnobConstraint::Int { min: 0, max: 4, step: -1, valid: vec![] };
    assert!(refused(Knob::new("k", "", 0.into(), Some(backwards)).verify()).contains("stride is -1"));
    let other = KnobConstraint::Float { min: 0.0, max: 1.0 };
    assert!(refused(Knob::new("k", "", 0.into(), Some(other)).verify()).contains("which is an integer"));
}

#[test]
fn settings_are_checked_against_all_knobs() {
    let knobs = [Knob::flag("a", "", false), Knob::float("b", "", 0.0, -1.0, 1.0).deprecated()];
    check_settings(&knobs, &[]).unwrap();
    let both = [setting_of("b", 0.5), setting_of("a", 1)];
    check_settings(&knobs, &both).unwrap();
    assert_eq!(int_setting(&both, "a"), Some(1));
    assert_eq!(int_setting(&both, "b"), None);
    let long = refused(check_settings(&[], &[setting_of(&"é".repeat(100), &*"t".repeat(100))]));
    let cut = |text: &str| format!("{:?}...", text.repeat(64));
    assert_eq!(
        long,
        format!("knob {} is set to {}, expected none, as the engine has no knobs", cut("é"), cut("t"))
    );
    assert_eq!(setting(&both, "b"), Some(&KnobValue::Float(0.5)));
    assert_eq!(
        refused(check_settings(&knobs, &[setting_of("c", 1)])),
        "knob \"c\" is set to 1, expected one of \"a\", \"b\""
    );
    assert!(refused(check_settings(&[], &[setting_of("c", "x")])).contains("has no knobs"));
    let twice = [setting_of("a", 1), setting_of("a", 1)];
    assert!(refused(check_settings(&knobs, &twice)).contains("\"a\" is set twice"));
    let many: Vec<_> = (0..=MAX_KNOB_CHOICES).map(|i| setting_of(&i.to_string(), 1)).collect();
    assert!(refused(check_settings(&knobs, &many)).contains("1025 knobs are set"));
}

#[test]
fn settings_of_unknown_knobs_are_removed() {
    let knobs = [Knob::flag("a", "", false)];
    let mut settings = vec![setting_of("c", 1), setting_of("a", 7), setting_of("c", 0.5), setting_of("a", 0)];
    let faults: Vec<String> = take_unknown(&knobs, &mut settings).into_iter().map(|fault| fault.0).collect();
    assert_eq!(
        faults,
        ["knob \"c\" is set to 1, expected \"a\"", "knob \"c\" is set to 0.5, expected \"a\""]
    );
    assert_eq!(settings, [setting_of("a", 7), setting_of("a", 0)]);
}
