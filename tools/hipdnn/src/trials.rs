//! A picture of a search: each trial, its start and its time.

use std::fmt::Write;

use hipdnn::tuning::{Candidate, Trial, Tuned};

use crate::picture::text::{escape, short};

const SIZE: (f64, f64) = (860.0, 460.0);
/// Left, top, right, bottom.
const MARGINS: (f64, f64, f64, f64) = (72.0, 84.0, 24.0, 58.0);
/// The colours of engines, in the order of the candidates.
const COLOURS: [&str; 6] = ["#3455b3", "#b35900", "#1a7f64", "#6e40c9", "#a3326b", "#57606a"];

/// The scale of the picture: seconds on the x axis, milliseconds on a logarithmic y axis.
struct Scale {
    last: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        MARGINS.0 + (SIZE.0 - MARGINS.0 - MARGINS.2) * seconds / self.last
    }

    fn y(&self, ms: f64) -> f64 {
        let part = (ms.log10() - self.low) / (self.high - self.low);
        SIZE.1 - MARGINS.3 - (SIZE.1 - MARGINS.1 - MARGINS.3) * part.clamp(0.0, 1.0)
    }
}

/// The picture as SVG.
pub fn draw(graph: &str, tuned: &Tuned, candidates: &[Candidate]) -> String {
    let ms = |trial: &Trial| trial.time().map(|time| (time.as_secs_f64() * 1e3).max(1e-6));
    let times: Vec<f64> = tuned.trials.iter().filter_map(ms).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = times.iter().copied().fold(0.0, f64::max);
    let scale = Scale {
        last: tuned.took.as_secs_f64().max(1e-3),
        low: least.log10() - 0.05,
        high: greatest.log10().max(least.log10() + 0.1) + 0.05,
    };
    let mut svg = String::new();
    let (w, h) = SIZE;
    add(
        &mut svg,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">"#
        ),
    );
    let about = format!(
        "{} configurations in {:.1} s; best {:.4} ms, {:.2} times as fast as the default choice",
        tuned.trials.len(),
        scale.last,
        tuned.best_time().map_or(0.0, |time| time.as_secs_f64() * 1e3),
        tuned.gain
    );
    add(&mut svg, format_args!("<title>{}</title>", escape(&format!("{graph}: {about}"))));
    add(&mut svg, format_args!(r##"<rect width="{w}" height="{h}" rx="8" fill="#ffffff"/>"##));
    add(
        &mut svg,
        format_args!(
            r##"<g font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" fill="#1f2328" font-size="12">"##
        ),
    );
    add(
        &mut svg,
        format_args!(
            r#"<text x="28" y="32" font-size="18" font-weight="600">{}</text>"#,
            escape(&short(graph, 70))
        ),
    );
    add(&mut svg, format_args!(r##"<text x="28" y="50" fill="#57606a">{}</text>"##, escape(&about)));
    axes(&mut svg, &scale);
    if let Some(default) = tuned.trials.get(tuned.default).and_then(ms) {
        let y = scale.y(default);
        add(
            &mut svg,
            format_args!(
                r##"<path d="M{:.1} {y:.1} H{:.1}" stroke="#8c959f" stroke-dasharray="4 4"/>"##,
                MARGINS.0,
                w - MARGINS.2
            ),
        );
        add(
            &mut svg,
            format_args!(
                r##"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#57606a">default choice</text>"##,
                w - MARGINS.2,
                y - 5.0
            ),
        );
    }
    staircase(&mut svg, tuned, &scale, ms);
    for (place, trial) in tuned.trials.iter().enumerate() {
        let at = candidates.iter().position(|of| of.engine == trial.configuration.engine).unwrap_or(0);
        let name = candidates.get(at).map(|of| of.name.as_str()).unwrap_or_default();
        let colour = COLOURS.get(at % COLOURS.len()).copied().unwrap_or_default();
        let x = scale.x(trial.at.as_secs_f64());
        let what = escape(short(&format!("{name} {}", trial.configuration), 200).trim_end());
        match ms(trial) {
            Some(time) => {
                let is_best = tuned.ranking.first() == Some(&place);
                let (radius, ring) =
                    if is_best { (6.0, r##" stroke="#1f2328" stroke-width="2""##) } else { (3.5, "") };
                add(
                    &mut svg,
                    format_args!(
                        r#"<circle cx="{x:.1}" cy="{:.1}" r="{radius}" fill="{colour}" fill-opacity="0.75"{ring}><title>{what}: {time:.4} ms, {} runs</title></circle>"#,
                        scale.y(time),
                        trial.runs.len()
                    ),
                );
            }
            None => {
                let why = escape(&short(trial.failure.as_deref().unwrap_or("not measured"), 200));
                let y = MARGINS.1;
                add(
                    &mut svg,
                    format_args!(
                        r##"<path d="M{:.1} {:.1} l7 7 m0 -7 l-7 7" stroke="#cf222e" stroke-width="1.5"><title>{what}: {why}</title></path>"##,
                        x - 3.5,
                        y - 3.5
                    ),
                );
            }
        }
    }
    let mut x = MARGINS.0;
    for (at, candidate) in candidates.iter().enumerate() {
        let colour = COLOURS.get(at % COLOURS.len()).copied().unwrap_or_default();
        add(
            &mut svg,
            format_args!(
                r#"<circle cx="{:.1}" cy="66" r="4" fill="{colour}"/><text x="{:.1}" y="70">{}</text>"#,
                x + 4.0,
                x + 13.0,
                escape(&candidate.name)
            ),
        );
        x += 26.0 + 7.6 * candidate.name.chars().count() as f64;
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Draws lines at powers of ten and their halves, and labels the seconds.
fn axes(svg: &mut String, scale: &Scale) {
    let right = SIZE.0 - MARGINS.2;
    let first = scale.low.floor() as i32;
    for step in first..=scale.high.ceil() as i32 {
        for factor in [1.0, 2.0, 5.0] {
            let ms = factor * 10_f64.powi(step);
            if (scale.low..=scale.high).contains(&ms.log10()) {
                let y = scale.y(ms);
                add(
                    svg,
                    format_args!(
                        r##"<path d="M{:.1} {y:.1} H{right:.1}" stroke="#eaeef2"/><text x="{:.1}" y="{:.1}" text-anchor="end">{ms} ms</text>"##,
                        MARGINS.0,
                        MARGINS.0 - 8.0,
                        y + 4.0
                    ),
                );
            }
        }
    }
    let bottom = SIZE.1 - MARGINS.3;
    for part in 0..=4 {
        let seconds = scale.last * f64::from(part) / 4.0;
        add(
            svg,
            format_args!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{seconds:.2} s</text>"#,
                scale.x(seconds),
                bottom + 20.0
            ),
        );
    }
    add(svg, format_args!(r##"<path d="M{:.1} {bottom:.1} H{right:.1}" stroke="#8c959f"/>"##, MARGINS.0));
}

/// The best time up to each moment.
fn staircase(svg: &mut String, tuned: &Tuned, scale: &Scale, ms: impl Fn(&Trial) -> Option<f64>) {
    let (mut path, mut best) = (String::new(), f64::INFINITY);
    for trial in &tuned.trials {
        let Some(time) = ms(trial).filter(|time| *time < best) else { continue };
        let (x, y) = (scale.x(trial.at.as_secs_f64()), scale.y(time));
        path.push_str(&if best.is_finite() {
            format!(" H{x:.1} V{y:.1}")
        } else {
            format!("M{x:.1} {y:.1}")
        });
        best = time;
    }
    if !path.is_empty() {
        add(
            svg,
            format_args!(
                r##"<path d="{path} H{:.1}" fill="none" stroke="#1f2328" stroke-width="1.5"/>"##,
                SIZE.0 - MARGINS.2
            ),
        );
    }
}

fn add(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a text cannot fail.
    let _ = svg.write_fmt(text);
    svg.push('\n');
}
