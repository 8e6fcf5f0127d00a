//! Formats records as lines: comma-separated for the profile, events of Chrome's trace format for the trace.
//!
//! Hand-written for speed, since executing threads format the lines.

use super::{Event, Plan, Record};
use crate::ffi::{CEnum, hipdnnStatus_t as Status};

/// The prefix of every line of the profile.
const MARK: &str = "hipdnn_verbose";

/// The thread number of a device: a row below the threads'.
pub const DEVICE: i32 = i32::MAX;

/// The first lines: the names of the fields, and the library's version.
pub fn head_of_profile() -> String {
    let version = env!("HIPDNN_BACKEND_VERSION_STRING");
    format!(
        "{MARK},info,hipdnn_backend {version}\n{MARK},info,what,graph,engine,algorithm,shapes,ms,GB/s,GFLOP/s\n"
    )
}

/// A text as a field, without commas and line ends.
pub fn field(text: &str) -> String {
    let safe = |character: char| match character {
        ',' => ';',
        character if character.is_control() => ' ',
        character => character,
    };
    text.chars().map(safe).collect()
}

/// The profile's line for a record, for the kinds of records it shows.
pub fn of_profile(record: &Record, to: &mut Vec<u8>) {
    let time = record.end.saturating_sub(record.begin);
    let (what, plan, is_whole) = match &record.event {
        Event::Planned(plan) => ("plan", plan, false),
        Event::Executed(plan, false) => ("execute", plan, true),
        Event::Executed(plan, true) => ("failed", plan, false),
        Event::OnDevice(plan) => ("device", plan, true),
        Event::Call(..) | Event::Phase(..) | Event::Step(..) => return,
    };
    add(to, &[MARK, ",", what, ",", &plan.fields]);
    decimal(to, time / 100, 4);
    for amount in [plan.bytes, plan.operations] {
        to.push(b',');
        if is_whole && amount > 0 && time > 0 {
            // Per nanosecond is billions per second.
            decimal(to, amount.saturating_mul(100) / time, 2);
        }
    }
    to.push(b'\n');
}

/// The process and thread of an event, cached, since most events have the same as the one before.
pub struct Place {
    /// The process.
    pub process: u32,
    thread: i32,
    text: Vec<u8>,
}

impl Place {
    /// In no thread yet.
    pub fn of_process(process: u32) -> Self {
        Self { process, thread: 0, text: Vec::new() }
    }

    fn in_thread(&mut self, thread: i32) -> &[u8] {
        if self.thread != thread || self.text.is_empty() {
            self.thread = thread;
            self.text.clear();
            add(&mut self.text, &["\",\"pid\":"]);
            number(&mut self.text, u64::from(self.process));
            add(&mut self.text, &[",\"tid\":"]);
            number(&mut self.text, thread as u64);
            add(&mut self.text, &[",\"ts\":"]);
        }
        &self.text
    }
}

/// The beginning of an event of a category as one text, which is faster to write than three.
macro_rules! begin {
    ($category:literal) => {
        concat!("{\"ph\":\"X\",\"cat\":\"", $category, "\",\"name\":\"")
    };
}

/// The trace's event for a record.
pub fn of_trace(record: &Record, place: &mut Place, to: &mut Vec<u8>) {
    let (begin, thread) = match &record.event {
        Event::Call(..) => (begin!("api"), record.thread),
        Event::Phase(..) | Event::Planned(..) => (begin!("plan"), record.thread),
        Event::Executed(..) => (begin!("execute"), record.thread),
        Event::Step(..) => (begin!("step"), record.thread),
        Event::OnDevice(..) => (begin!("device"), DEVICE),
    };
    add(to, &[begin]);
    match &record.event {
        Event::Call(name, _) | Event::Phase(name, _) => escape(to, name.as_bytes()),
        Event::Planned(plan) => {
            add(to, &["plan "]);
            escape(to, plan.title.as_bytes());
        }
        Event::Executed(plan, _) | Event::OnDevice(plan) => escape(to, plan.title.as_bytes()),
        Event::Step(text) => escape(to, text.bytes()),
    }
    to.extend_from_slice(place.in_thread(thread));
    decimal(to, record.begin, 3);
    add(to, &[",\"dur\":"]);
    decimal(to, record.end.saturating_sub(record.begin), 3);
    arguments(&record.event, to);
    add(to, &["},\n"]);
}

fn arguments(event: &Event, to: &mut Vec<u8>) {
    match event {
        Event::Call(_, 0) | Event::Step(..) => {}
        Event::Call(_, status) => {
            let name = Status::from_raw(*status).map_or("", |status| status.name());
            add(to, &[",\"args\":{\"status\":\"", name, "\"}"]);
        }
        Event::Phase(_, detail) if detail.is_empty() => {}
        Event::Phase(_, detail) => {
            add(to, &[",\"args\":{\"of\":\""]);
            escape(to, detail.as_bytes());
            add(to, &["\"}"]);
        }
        Event::Planned(plan) => {
            of_plan(plan, to);
            add(to, &[",", &plan.members, ",\"bytes\":"]);
            number(to, plan.bytes);
            add(to, &[",\"operations\":"]);
            number(to, plan.operations);
            to.push(b'}');
        }
        Event::Executed(plan, failed) => {
            of_plan(plan, to);
            add(to, &[if *failed { ",\"failed\":true}" } else { "}" }]);
        }
        Event::OnDevice(plan) => {
            of_plan(plan, to);
            to.push(b'}');
        }
    }
}

fn of_plan(plan: &Plan, to: &mut Vec<u8>) {
    add(to, &[",\"args\":{\"plan\":"]);
    number(to, u64::from(plan.number));
}

/// The event that names a thread or the process.
pub fn of_name(what: &str, process: u32, thread: i32, name: &str, to: &mut Vec<u8>) {
    add(to, &["{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":"]);
    number(to, u64::from(process));
    add(to, &[",\"tid\":"]);
    number(to, thread as u64);
    add(to, &[",\"args\":{\"name\":\""]);
    escape(to, name.as_bytes());
    add(to, &["\"}},\n"]);
}

/// The last event, and the end of the list.
pub fn of_end(process: u32, time: u64, to: &mut Vec<u8>) {
    add(to, &["{\"ph\":\"i\",\"name\":\"exit\",\"s\":\"p\",\"pid\":"]);
    number(to, u64::from(process));
    add(to, &[",\"tid\":0,\"ts\":"]);
    decimal(to, time, 3);
    add(to, &["}\n]\n"]);
}

fn add(to: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        to.extend_from_slice(text.as_bytes());
    }
}

fn number(to: &mut Vec<u8>, number: u64) {
    decimal(to, number, 0);
}

/// An integer as a decimal fraction with so many digits.
fn decimal(to: &mut Vec<u8>, mut number: u64, decimals: usize) {
    let least = if decimals == 0 { 1 } else { decimals + 2 };
    let mut digits = [0_u8; 24];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        if used >= least && number == 0 {
            break;
        }
        if used == decimals && decimals > 0 {
            *digit = b'.';
        } else {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        used += 1;
    }
    to.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

/// A text inside JSON quotes. Foreign bytes may not be UTF-8.
fn escape(to: &mut Vec<u8>, text: &[u8]) {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if text.iter().all(is_plain) {
        to.extend_from_slice(text);
        return;
    }
    let quoted = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
    to.extend_from_slice(quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Text;
    use crate::trace::plan::About;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        write(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn numbers() {
        for (value, decimals, expected) in [
            (0, 0, "0"),
            (7, 0, "7"),
            (1234, 0, "1234"),
            (0, 3, "0.000"),
            (5, 3, "0.005"),
            (1234, 3, "1.234"),
            (u64::MAX, 3, "18446744073709551.615"),
            (100, 2, "1.00"),
        ] {
            assert_eq!(text(|to| decimal(to, value, decimals)), expected);
        }
    }

    #[test]
    fn every_event_is_a_line_of_json() {
        let plan = Plan::of(&About { engine: "LINE_ENGINE", ..About::default() });
        let events = [
            Event::Call("hipdnnCreate", 0),
            Event::Call("hipdnnCreate", 3),
            Event::Phase("load", "a\"b\\c\n\u{e9}".into()),
            Event::Phase("load", "".into()),
            Event::Planned(plan),
            Event::Executed(plan, false),
            Event::Executed(plan, true),
            Event::OnDevice(plan),
            Event::Step(Text::of(b"\"conv\xff\"")),
            Event::Step(Text::of(&[b'x'; 100])),
        ];
        for event in events {
            let line = text(|to| {
                let record = Record { thread: 7, begin: 1_234_567, end: 1_234_999, event: copy(&event) };
                of_trace(&record, &mut Place::of_process(5), to);
            });
            let value: serde_json::Value = serde_json::from_str(line.strip_suffix(",\n").unwrap()).unwrap();
            assert_eq!(
                (value["ts"].as_f64(), value["dur"].as_f64()),
                (Some(1234.567), Some(0.432)),
                "{line}"
            );
        }
    }

    fn copy(event: &Event) -> Event {
        match event {
            Event::Call(name, status) => Event::Call(name, *status),
            Event::Phase(name, detail) => Event::Phase(name, detail.clone()),
            Event::Planned(plan) => Event::Planned(plan),
            Event::Executed(plan, failed) => Event::Executed(plan, *failed),
            Event::OnDevice(plan) => Event::OnDevice(plan),
            Event::Step(text) => Event::Step(*text),
        }
    }

    #[test]
    fn the_profile_has_rates_where_they_are_known() {
        let description = r#"{"steps": [{"algorithm": "gemm", "bytes": 3000, "flops": 120000}]}"#;
        let about = About { engine: "E", graph: None, description: Some(description) };
        let plan = Plan::of(&about);
        let line = |event| {
            text(|to| of_profile(&Record { thread: 1, begin: 1000, end: 13_000, event: copy(&event) }, to))
        };
        assert_eq!(line(Event::Executed(plan, false)), "hipdnn_verbose,execute,,E,gemm,,0.0120,0.25,10.00\n");
        assert_eq!(line(Event::Executed(plan, true)), "hipdnn_verbose,failed,,E,gemm,,0.0120,,\n");
        assert_eq!(line(Event::Planned(plan)), "hipdnn_verbose,plan,,E,gemm,,0.0120,,\n");
        assert_eq!(line(Event::Call("hipdnnCreate", 0)), "");
    }
}
