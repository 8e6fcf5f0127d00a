//! The device that the machine computes on.

use std::sync::OnceLock;

/// What tells the device from others, for people too. Plans are saved with it and loaded only where it is the same.
pub fn fingerprint() -> &'static str {
    static FINGERPRINT: OnceLock<String> = OnceLock::new();
    FINGERPRINT.get_or_init(|| {
        let kind = std::env::consts::ARCH;
        match std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text)) {
            Some(model) => format!("{kind}: {model}"),
            None => kind.to_owned(),
        }
    })
}

/// The name of the first processor in the system's list.
fn model(list: &str) -> Option<String> {
    let line = list.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned()).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let list = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(model(list).as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(model("model name\t:\n"), None);
        assert_eq!(model("processor\t: 0\n"), None);
    }

    #[test]
    fn the_fingerprint_stays() {
        assert!(fingerprint().starts_with(std::env::consts::ARCH));
        assert_eq!(fingerprint(), fingerprint());
    }
}
