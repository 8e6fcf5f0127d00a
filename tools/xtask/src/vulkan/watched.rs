//! Programs watched by Khronos' validation layer: also for hazards between accesses, and with kernels that check themselves.

use std::path::Path;
use std::process::Command;

use crate::Failure;

/// Newer layers have names of their own for the same settings.
const SETTINGS: &str = "\
khronos_validation.report_flags = error,warn,info
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.log_filename = stdout
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,\
VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT
khronos_validation.validate_sync = true
khronos_validation.gpuav_enable = true
";

/// What the layer says that it does.
const ENABLED: [&str; 2] = ["GPU_ASSISTED", "SYNCHRONIZATION"];

/// Words of messages about a program.
const MESSAGES: [&str; 5] =
    ["Validation Error", "Validation Warning", "Validation Performance", "VUID-", "SYNC-HAZARD"];

/// Writes the layer's settings.
pub fn write_settings(path: &Path) -> Result<(), Failure> {
    Ok(std::fs::write(path, SETTINGS)?)
}

/// Has a program watched with these settings.
pub fn watch(program: &mut Command, settings: &Path) {
    program.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation").env("VK_LAYER_SETTINGS_PATH", settings);
}

/// Checks that a program was watched, and that nothing was said about it.
pub fn check(output: &str) -> Result<(), Failure> {
    let enables = output.lines().filter(|line| line.contains("Current Enables: "));
    let is_on = |line: &str| ENABLED.iter().all(|word| line.contains(word));
    if !enables.clone().any(is_on) {
        let said: Vec<&str> = enables.collect();
        return Err(Failure::new(format!(
            "the validation layer does not say that it checks {}: {said:?}",
            ENABLED.join(" and ")
        )));
    }
    let is_message = |line: &&str| MESSAGES.iter().any(|word| line.contains(word));
    match output.lines().find(is_message) {
        Some(line) => Err(Failure::new(line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: &str = "    Current Enables: VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT, \
                      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT.\n";

    #[test]
    fn a_program_passes_if_it_was_watched_and_nothing_was_said() {
        assert!(check(ON).is_ok());
        assert!(check("").unwrap_err().to_string().contains("does not say"));
        assert!(check("    Current Enables: None.\n").is_err());
        for message in [
            "VUID-vkCmdDispatch-None-02697(ERROR / SPEC): msgNum: 1 - Validation Error: [ VUID",
            "SYNC-HAZARD-READ-AFTER-WRITE(ERROR / SPEC): msgNum: 2",
            "UNASSIGNED-x(WARN / SPEC): msgNum: 3 - Validation Warning: [ UNASSIGNED",
        ] {
            assert_eq!(check(&format!("{ON}{message}\n")).unwrap_err().to_string(), message);
        }
    }
}
