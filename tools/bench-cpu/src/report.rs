//! Results as a table and as a record.

use std::collections::BTreeSet;
use std::fmt::Write;

use hipdnn_tool::table::Table;
use serde_json::{Value, json};

use crate::case::Work;
use crate::machine::Machine;
use crate::measure::{Row, mean};
use crate::public;
use crate::suites::{Goal, SUITES};

/// The time of planning and first execution is compared with later executions if those take at least so many milliseconds.
const LONG: f64 = 5.0;

/// A suite in one line.
pub struct Summary {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// The number of measured cases.
    pub cases: usize,
    /// The geometric mean of the ratios, and the least one.
    pub ratio: Option<(f64, f64)>,
    /// The same without the promise of constant weights, for cases with weights.
    pub unpromised: Option<(f64, f64)>,
    /// For each peer: its name, its number of cases, and the geometric mean of the ratios.
    pub each: Vec<(String, usize, f64)>,
    /// The geometric mean of the fractions of the machine's peak.
    pub share: f64,
    /// Its goal.
    pub goal: Option<Goal>,
}

/// The suites that have rows.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let of = |suite: &crate::suites::Suite| {
        let of_suite: Vec<&Row> =
            rows.iter().filter(|row| row.suite == suite.name && row.ours.is_finite()).collect();
        let peers = || of_suite.iter().filter_map(|row| row.peer());
        let all = || of_suite.iter().flat_map(|row| &row.peers);
        let names: BTreeSet<&str> = all().map(|peer| peer.name.as_str()).collect();
        let alone = |name: &str| {
            let ratios: Vec<f64> = all().filter(|peer| peer.name == name).map(|peer| peer.ratio).collect();
            (name.to_owned(), ratios.len(), mean(ratios))
        };
        let mean_and_least = |ratios: Vec<f64>| {
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            (!ratios.is_empty()).then(|| (mean(ratios), least))
        };
        (!of_suite.is_empty()).then(|| Summary {
            name: suite.name,
            about: suite.about,
            cases: of_suite.len(),
            ratio: mean_and_least(peers().map(|peer| peer.ratio).collect()),
            unpromised: mean_and_least(
                peers().map(|peer| peer.unpromised).filter(|ratio| ratio.is_finite()).collect(),
            ),
            each: names.into_iter().map(alone).collect(),
            share: mean(of_suite.iter().map(|row| row.share)),
            goal: suite.goal,
        })
    };
    SUITES.iter().chain(public::SUITES).filter_map(of).collect()
}

/// Planning and first execution relative to a later execution, for graphs that take long enough: count, mean and maximum.
pub fn first_runs(rows: &[Row]) -> Option<(usize, f64, f64)> {
    let ratios: Vec<f64> =
        rows.iter().filter(|row| row.ours >= LONG).map(|row| row.first / row.ours).collect();
    let most = ratios.iter().copied().fold(0.0, f64::max);
    (!ratios.is_empty()).then(|| (ratios.len(), mean(ratios.iter().copied()), most))
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

fn goal(goal: Option<Goal>) -> String {
    match goal {
        None => "-".to_owned(),
        Some(Goal::Ratio(least)) => format!("ratio >= {least}"),
        Some(Goal::Beside(peer, least)) => format!("{peer} >= {least}"),
        Some(Goal::Least(least)) => format!("least >= {least}"),
        Some(Goal::Share(least)) => format!("share >= {:.0} %", 100.0 * least),
        Some(Goal::RatioAndShare(least, share)) => {
            format!("ratio >= {least}, share >= {:.0} %", 100.0 * share)
        }
    }
}

/// The means for each peer, with the number of its cases if it lacks some.
fn each(summary: &Summary) -> String {
    let of = |(name, cases, mean): &(String, usize, f64)| match *cases == summary.cases {
        true => format!("{name} {}", ratio(*mean)),
        false => format!("{name} {} ({cases})", ratio(*mean)),
    };
    summary.each.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The text for a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "SUITE",
        "CASE",
        "OURS ms",
        "PEER ms",
        "RATIO",
        "PACKING ms",
        "RATIO",
        "RATE",
        "UNIT",
        "SHARE %",
        "PEER",
    ]);
    let finite = |value: f64, text: String| if value.is_finite() { text } else { "-".to_owned() };
    for row in rows {
        let peer = row.peer();
        table.row([
            row.suite.to_owned(),
            row.case.clone(),
            format!("{:.3}", row.ours),
            peer.map_or_else(|| "-".to_owned(), |peer| format!("{:.3}", peer.ms)),
            peer.map_or_else(|| "-".to_owned(), |peer| ratio(peer.ratio)),
            finite(row.unpromised, format!("{:.3}", row.unpromised)),
            peer.map_or_else(|| "-".to_owned(), |peer| finite(peer.unpromised, ratio(peer.unpromised))),
            format!("{:.1}", row.rate()),
            match row.work {
                Work::Operations(_) => "GFLOP/s",
                Work::Bytes(_) => "GB/s",
            }
            .to_owned(),
            format!("{:.1}", 100.0 * row.share),
            peer.map_or_else(|| "-".to_owned(), |peer| peer.name.clone()),
        ]);
    }
    let mut text = table.text();
    let mut means = Table::new(&[
        "SUITE",
        "CASES",
        "RATIO",
        "LEAST",
        "PACKING",
        "LEAST",
        "SHARE %",
        "GOAL",
        "ABOUT",
        "EACH PEER",
    ]);
    for summary in summaries(rows) {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ratio);
        means.row([
            summary.name.to_owned(),
            summary.cases.to_string(),
            number(summary.ratio.map(|(mean, _)| mean)),
            number(summary.ratio.map(|(_, least)| least)),
            number(summary.unpromised.map(|(mean, _)| mean)),
            number(summary.unpromised.map(|(_, least)| least)),
            format!("{:.1}", 100.0 * summary.share),
            goal(summary.goal),
            summary.about.to_owned(),
            each(&summary),
        ]);
    }
    let _ = write!(
        text,
        "\nGeometric means; ratio: the time of the faster peer, case by case, over ours. Peers have their weights packed ahead of time, as ours has with\n\
         the knob constant_weights; packing: ours without it, where each execution packs them\n{}",
        means.text()
    );
    if let Some((count, mean, most)) = first_runs(rows) {
        let _ = writeln!(
            text,
            "\nPlan + first execution over a later one, {count} graphs above {LONG} ms: {mean:.2}, at most {most:.2} (goal <= 3)"
        );
    }
    for row in rows {
        if let Some(failure) = &row.failure {
            let _ = writeln!(text, "FAILED {} {}: {failure}", row.suite, row.case);
        }
    }
    text
}

/// The cases as comma-separated values, times in microseconds: ours, the faster peer's, our time relative to that, and the same for
/// another version.
pub fn csv(rows: &[Row]) -> String {
    let mut text = "suite,case,ours_us,peer,peer_us,times,before_us,before_times\n".to_owned();
    let number = |value: Option<f64>, digits: usize| {
        value.filter(|value| value.is_finite()).map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    for row in rows {
        let (peer, before) = (row.peer(), row.before.as_ref());
        let before_times = peer.zip(before).map(|(peer, before)| before.ratio / peer.ratio);
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{}",
            row.suite,
            row.case,
            number(Some(1000.0 * row.ours), 1),
            peer.map_or("", |peer| peer.name.as_str()),
            number(peer.map(|peer| 1000.0 * peer.ms), 1),
            number(peer.map(|peer| 1.0 / peer.ratio), 2),
            number(before.map(|before| 1000.0 * before.ms), 1),
            number(before_times, 2)
        );
    }
    text
}

/// The record.
pub fn json(rows: &[Row], machine: &Machine, peers: &[String], threads: usize) -> Value {
    let suites: Vec<Value> = summaries(rows)
        .iter()
        .map(|of| {
            json!({
                "name": of.name, "cases": of.cases, "ratio": of.ratio.map(|(mean, _)| mean),
                "least_ratio": of.ratio.map(|(_, least)| least),
                "ratio_unpromised": of.unpromised.map(|(mean, _)| mean),
                "least_ratio_unpromised": of.unpromised.map(|(_, least)| least), "share": of.share,
                "peers": of.each.iter().map(|(name, cases, mean)| json!({"name": name, "cases": cases, "ratio": mean}))
                    .collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "threads": threads, "peers": peers,
        "machine": {"one_gflops": machine.one, "all_gflops": machine.all, "copy_gbs": machine.copy},
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        "suites": suites,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Found;

    fn row(ours: f64, ratio: f64) -> Row {
        let peer = |name: &str, ratio: f64| Found {
            name: name.to_owned(),
            ms: ours * ratio,
            ratio,
            unpromised: ratio / 2.0,
        };
        Row {
            suite: "bert",
            case: "a case".to_owned(),
            ours,
            unpromised: 2.0 * ours,
            first: 3.0 * ours,
            peers: vec![peer("a peer", ratio), peer("another", 2.0 * ratio)],
            before: Some(peer("before", 4.0 * ratio)),
            work: Work::Operations(5e8),
            share: 0.5,
            failure: None,
        }
    }

    #[test]
    fn suites_have_geometric_means() {
        let rows = [row(10.0, 1.0), row(10.0, 4.0)];
        let of = summaries(&rows);
        let [one] = of.as_slice() else { panic!("one suite was expected") };
        let (mean, least) = one.ratio.unwrap();
        assert!((mean - 2.0).abs() < 1e-9 && least == 1.0);
        let (mean, least) = one.unpromised.unwrap();
        assert!((mean - 1.0).abs() < 1e-9 && least == 0.5);
        assert!((one.share - 0.5).abs() < 1e-9);
        let [(name, 2, mean), (other, 2, slower)] = one.each.as_slice() else { panic!("{:?}", one.each) };
        assert!(name == "a peer" && (mean - 2.0).abs() < 1e-9);
        assert!(other == "another" && (slower - 4.0).abs() < 1e-9);
        assert_eq!(each(one), "a peer 2.00, another 4.00");
        let (count, mean, most) = first_runs(&rows).unwrap();
        assert!(count == 2 && (mean - 3.0).abs() < 1e-9 && (most - 3.0).abs() < 1e-9);
        assert!(first_runs(&[row(1.0, 1.0)]).is_none());
    }

    #[test]
    fn a_line_of_values_for_each_case() {
        let text = csv(&[row(0.01, 0.5)]);
        assert_eq!(text.lines().nth(1).unwrap(), "bert,a case,10.0,a peer,5.0,2.00,20.0,4.00");
        assert_eq!(csv(&[row(f64::NAN, f64::NAN)]).lines().nth(1).unwrap(), "bert,a case,,a peer,,,,");
    }

    #[test]
    fn failures_are_in_the_text() {
        let mut failed = row(f64::NAN, f64::NAN);
        failed.failure = Some("wrong".to_owned());
        assert!(text(&[failed]).contains("FAILED bert a case: wrong"));
    }
}
