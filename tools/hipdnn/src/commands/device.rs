//! `hipdnn device`

use hipdnn::hardware::{Device, Found, VulkanDevice, devices, libraries, vulkan_devices};
use hipdnn::{Backend, Handle};
use serde::Serialize;

use super::{Outcome, json};
use crate::cli::List;
use crate::failure::{Failure, Result, one_line};
use crate::table::Table;

#[derive(Debug, Serialize)]
struct Answer {
    libraries: Vec<Found>,
    devices: Vec<Device>,
    vulkan: Vec<VulkanDevice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_vulkan: Option<String>,
}

/// Lists AMD's and NVIDIA's libraries and the devices, Vulkan's among them.
pub fn device(backend: Result<Backend>, arguments: &List) -> Result<Outcome> {
    let (devices, problem) = match devices() {
        Ok(devices) => (devices, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let listed = backend.and_then(|backend| Ok(vulkan_devices(&Handle::new(&backend)?)?));
    let (vulkan, no_vulkan) = match listed {
        Ok(devices) if devices.is_empty() => (devices, Some("the loader found no driver".to_owned())),
        Ok(devices) => (devices, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    let is_there = vulkan.iter().any(|device| device.is_usable);
    let answer = Answer { libraries: libraries(), devices, vulkan, no_vulkan };
    let text = if arguments.json { json(&answer)?.text } else { text(&answer) };
    let problem = problem.filter(|_| !is_there);
    Ok(Outcome { text, failure: problem.map(|reason| Failure::work(reason).during("no device")) })
}

/// The file names searched, if the reason is only that none exists.
fn names_of_absent(reason: &str) -> Option<&str> {
    let (_, looked_for) = reason.split_once("; looked for ")?;
    let (names, why) = looked_for.split_once(" (")?;
    why.strip_suffix(')').filter(|why| why.ends_with("No such file or directory") && !why.contains(" ("))?;
    Some(names)
}

fn text(answer: &Answer) -> String {
    let mut table = Table::new(&["LIBRARY", "NAME", "VERSION", "FILE"]);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for library in &answer.libraries {
        let file = library.file.as_ref().map(|file| file.display().to_string());
        table.row([
            library.library.to_owned(),
            or_none(&library.name),
            or_none(&library.version),
            or_none(&file),
        ]);
    }
    let mut text = table.text();
    // Absent libraries share one line, with the names searched.
    let reasons = answer.libraries.iter().filter_map(|it| Some((it.library, it.missing.as_deref()?)));
    let (absent, broken): (Vec<_>, Vec<_>) =
        reasons.partition(|(_, reason)| names_of_absent(reason).is_some());
    let absent: Vec<_> = absent
        .iter()
        .filter_map(|(library, reason)| Some(format!("{library} ({})", names_of_absent(reason)?)))
        .collect();
    if !absent.is_empty() {
        text.push_str(&format!("not there: {}\n", absent.join(", ")));
    }
    broken.iter().for_each(|(_, reason)| text.push_str(&format!("{}\n", one_line(reason))));
    if !answer.devices.is_empty() {
        let mut table = Table::new(&["DEVICE", "ARCHITECTURE", "COMPUTE UNITS", "MEMORY MIB"]);
        for device in &answer.devices {
            table.row([
                device.number.to_string(),
                device.architecture.clone(),
                device.compute_units.to_string(),
                (device.memory_bytes >> 20).to_string(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    if !answer.vulkan.is_empty() {
        let mut table = Table::new(&["DEVICE", "NAME", "KIND", "VULKAN", "MEMORY MIB", "USABLE"]);
        for device in &answer.vulkan {
            table.row([
                format!("vulkan:{}", device.number),
                device.name.clone(),
                device.kind.to_string(),
                device.version.clone(),
                (device.memory_bytes >> 20).to_string(),
                if device.is_usable { "yes" } else { "no" }.to_owned(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    if let Some(reason) = &answer.no_vulkan {
        text.push_str(&format!("no Vulkan device: {}\n", one_line(reason)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::names_of_absent;

    #[test]
    fn only_missing_libraries_are_absent() {
        let gone = "cannot open shared object file: No such file or directory";
        let reason = |why| format!("no library for HIP was found; looked for liba.so.7, liba.so.6 ({why})");
        assert_eq!(names_of_absent(&reason(gone)), Some("liba.so.7, liba.so.6"));
        assert_eq!(names_of_absent(&reason("it lacks hipMalloc")), None);
        assert_eq!(names_of_absent(&reason(&format!("it lacks x), libb.so ({gone}"))), None);
    }
}
