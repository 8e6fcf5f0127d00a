//! Draws the picture as SVG.

use std::fmt::Write;

use super::Marks;
use super::diagram::{BODY, Diagram, Family, Item, Kind, PORT, Part, STRIP, TITLE};
use super::place::{Placed, Point, Way};
use super::text::{escape, short, width};
use crate::graph::Graph;

const MARGIN: f64 = 28.0;
const HEAD: f64 = 74.0;
const FOOT: f64 = 44.0;

/// The colours of a kind of box: fill, outline, title.
pub fn colours(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Operation(family) => (family_colour(family), "none", "#ffffff"),
        Kind::Share(part) => (part_colour(part), "none", "#ffffff"),
        Kind::Input => ("#ddf4ff", "#54aeff", "#1f2328"),
        Kind::Output => ("#dafbe1", "#4ac26b", "#1f2328"),
        Kind::Virtual => ("#ffffff", "#8c959f", "#1f2328"),
        Kind::Value => ("#fff8c5", "#d4a72c", "#1f2328"),
    }
}

fn family_colour(family: Family) -> &'static str {
    match family {
        Family::Product => "#3455b3",
        Family::Normalization => "#1a7f64",
        Family::Pointwise => "#b35900",
        Family::Attention => "#6e40c9",
        Family::Reduction => "#0b6e8f",
        Family::Scaling => "#a3326b",
        Family::Other => "#57606a",
    }
}

fn part_colour(part: Part) -> &'static str {
    match part {
        Part::Hundredth => "#57606a",
        Part::Tenth => "#9a6700",
        Part::Half => "#bc4c00",
        Part::Most => "#a40e26",
    }
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Hundredth => "below 1 % of the error",
        Part::Tenth => "1 to 10 %",
        Part::Half => "10 to 50 %",
        Part::Most => "50 % and more",
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Product => "product",
        Family::Normalization => "normalization",
        Family::Pointwise => "pointwise",
        Family::Attention => "attention",
        Family::Reduction => "reduction, pooling",
        Family::Scaling => "block scale",
        Family::Other => "other operation",
    }
}

/// The whole picture.
pub(super) fn draw(graph: &Graph, marks: Marks<'_>, diagram: &Diagram, placed: &Placed) -> String {
    let name = if graph.name.is_empty() { "graph".to_owned() } else { short(&graph.name, 80) };
    let engine = marks.engine().map(|engine| format!(" · {engine}")).unwrap_or_default();
    let about = format!(
        "{} · {} · compute {} · intermediate {} · io {}{engine}",
        count(graph.nodes.len(), "node"),
        count(graph.tensors.len(), "tensor"),
        graph.compute_type,
        graph.intermediate_type,
        graph.io_type
    );
    let entries = legend_entries(diagram);
    let legend_width: f64 = entries.iter().map(|(_, label)| legend_room(label)).sum();
    let inner = placed.width.max(width(&name, 18.0) * 1.1).max(width(&about, 12.0)).max(legend_width);
    let (w, h) = (inner + 2.0 * MARGIN, HEAD + placed.height + FOOT + MARGIN);
    let origin = Point { x: MARGIN + (inner - placed.width) / 2.0, y: HEAD };

    let mut svg = Svg::default();
    svg.line(&format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0}" height="{h:.0}" viewBox="0 0 {w:.0} {h:.0}" role="img">"##
    ));
    svg.line(&format!("<title>{}</title>", escape(&format!("{name}: {about}"))));
    svg.line(r##"<defs><marker id="arrow" viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="6.5" markerHeight="6.5" orient="auto"><path d="M0 1 L9 5 L0 9 z" fill="#6e7781"/></marker></defs>"##);
    svg.line(&format!(r##"<rect width="{w:.0}" height="{h:.0}" rx="8" fill="#ffffff"/>"##));
    svg.line(r##"<g font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" fill="#1f2328">"##);
    svg.text(MARGIN, 32.0, 18.0, "font-weight=\"600\"", &name);
    svg.text(MARGIN, 50.0, 12.0, "fill=\"#57606a\"", &about);
    svg.groups(diagram, placed, origin);
    svg.line(r##"<g fill="none" stroke="#6e7781" stroke-width="1.3">"##);
    for (edge, way) in diagram.edges.iter().zip(&placed.ways) {
        let dashes = if edge.is_offset { r#" stroke-dasharray="2 3""# } else { "" };
        svg.line(&format!(r#"<path d="{}" marker-end="url(#arrow)"{dashes}/>"#, path(way, origin)));
    }
    svg.line("</g>");
    for (item, center) in diagram.items.iter().zip(&placed.centers) {
        svg.item(item, Point { x: origin.x + center.x, y: origin.y + center.y });
    }
    svg.roles(diagram, placed, origin);
    svg.legend(&entries, h - 22.0);
    svg.line("</g>");
    svg.line("</svg>");
    svg.0
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A smooth line through the points of an edge.
fn path(way: &Way, origin: Point) -> String {
    let mut path = String::new();
    let mut last: Option<Point> = None;
    for (at, point) in way.points.iter().enumerate() {
        let (x, y) = (origin.x + point.x, origin.y + point.y);
        match last {
            None => add(&mut path, format_args!("M{x:.1} {y:.1}")),
            // Straight inside a layer that it passes, and if it is nearly vertical.
            Some(from) if at % 2 == 0 || (from.x - x).abs() < 0.5 => {
                add(&mut path, format_args!(" L{x:.1} {y:.1}"));
            }
            Some(from) => {
                let middle = (from.y + y) / 2.0;
                add(&mut path, format_args!(" C{:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}", from.x));
            }
        }
        last = Some(Point { x, y });
    }
    path
}

/// Writing to a text cannot fail.
fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

/// The kinds of boxes in the picture, with their names.
fn legend_entries(diagram: &Diagram) -> Vec<(Kind, &'static str)> {
    let mut families: Vec<Family> = diagram
        .items
        .iter()
        .filter_map(|item| match item.kind {
            Kind::Operation(family) => Some(family),
            _ => None,
        })
        .collect();
    families.sort_unstable();
    families.dedup();
    let tensors = [
        (Kind::Input, "input"),
        (Kind::Virtual, "virtual"),
        (Kind::Value, "value inside"),
        (Kind::Output, "output"),
    ];
    let there = tensors.into_iter().filter(|(kind, _)| diagram.items.iter().any(|item| item.kind == *kind));
    let is_there = |part: &Part| diagram.items.iter().any(|item| item.kind == Kind::Share(*part));
    let parts = [Part::Hundredth, Part::Tenth, Part::Half, Part::Most].into_iter().filter(is_there);
    let parts = parts.map(|part| (Kind::Share(part), part_name(part)));
    let families = families.into_iter().map(|family| (Kind::Operation(family), family_name(family)));
    families.chain(parts).chain(there).collect()
}

fn legend_room(label: &str) -> f64 {
    width(label, BODY) + 46.0
}

#[derive(Default)]
struct Svg(String);

impl Svg {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, size: f64, more: &str, text: &str) {
        self.line(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" {more}>{}</text>"#,
            escape(text)
        ));
    }

    /// Frames the operations of a step, unless a box of another step is inside; then only the numbers tell.
    fn groups(&mut self, diagram: &Diagram, placed: &Placed, origin: Point) {
        const ROOM: f64 = 9.0;
        let corners = |item: usize| {
            let (item, center) = (diagram.items.get(item)?, placed.centers.get(item)?);
            let half = [item.width / 2.0, item.height / 2.0];
            Some([center.x - half[0], center.y - half[1], center.x + half[0], center.y + half[1]])
        };
        for group in &diagram.groups {
            let boxes = group.iter().filter_map(|item| corners(*item));
            let start = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
            let [left, top, right, bottom] = boxes.fold(start, |all, one| {
                [all[0].min(one[0]), all[1].min(one[1]), all[2].max(one[2]), all[3].max(one[3])]
            });
            let is_other = |item: &usize| {
                let is_operation = diagram.items.get(*item).is_some_and(|item| item.kind.is_operation());
                is_operation && !group.contains(item)
            };
            let overlaps = |one: [f64; 4]| one[0] < right && one[2] > left && one[1] < bottom && one[3] > top;
            let mut others = (0..diagram.items.len()).filter(is_other).filter_map(corners);
            if left < right && !others.any(overlaps) {
                self.line(&format!(
                    r##"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="12" fill="#f6f8fa" stroke="#8c959f" stroke-dasharray="7 4"/>"##,
                    origin.x + left - ROOM,
                    origin.y + top - ROOM,
                    right - left + 2.0 * ROOM,
                    bottom - top + 2.0 * ROOM
                ));
            }
        }
    }

    fn item(&mut self, item: &Item, center: Point) {
        let (fill, stroke, colour) = colours(item.kind);
        let (left, top) = (center.x - item.width / 2.0, center.y - item.height / 2.0);
        let is_operation = item.kind.is_operation();
        let radius = if is_operation { 6.0 } else { item.height / 2.0 - 1.0 };
        let dashes = if item.kind == Kind::Virtual { r#" stroke-dasharray="5 3""# } else { "" };
        self.line(&format!("<g><title>{}</title>", escape(&item.tip)));
        self.line(&format!(
            r#"<rect x="{left:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" rx="{radius:.1}" fill="{fill}" stroke="{stroke}"{dashes}/>"#,
            item.width, item.height
        ));
        let mut y = top + if is_operation { STRIP + 14.0 } else { 17.0 };
        self.text(
            center.x,
            y,
            TITLE,
            &format!(r#"text-anchor="middle" font-weight="600" fill="{colour}""#),
            &item.title,
        );
        let faint = if is_operation { "#e6edf3" } else { "#57606a" };
        for line in &item.lines {
            y += 15.0;
            self.text(center.x, y, BODY, &format!(r#"text-anchor="middle" fill="{faint}""#), line);
        }
        self.line("</g>");
    }

    /// The roles of tensors, inside the operations where edges end and start.
    fn roles(&mut self, diagram: &Diagram, placed: &Placed, origin: Point) {
        let edges = diagram.edges.iter().zip(&placed.ways).filter(|(edge, _)| !edge.is_offset);
        for (edge, way) in edges {
            let ends = [(edge.to, way.end, -1.0), (edge.from, way.start, 1.0)];
            for (item, x, side) in ends {
                let (Some(item), Some(center)) = (diagram.items.get(item), placed.centers.get(item)) else {
                    continue;
                };
                if item.kind.is_operation() {
                    let edge_y = origin.y + center.y + side * item.height / 2.0;
                    let y = if side < 0.0 { edge_y + 12.0 } else { edge_y - 5.0 };
                    let more = r##"text-anchor="middle" fill="#ffffff" opacity="0.8""##;
                    self.text(origin.x + x, y, PORT, more, &edge.role);
                }
            }
        }
    }

    fn legend(&mut self, entries: &[(Kind, &'static str)], y: f64) {
        let mut x = MARGIN;
        for (kind, label) in entries {
            let (fill, stroke, _) = colours(*kind);
            let dashes = if *kind == Kind::Virtual { r#" stroke-dasharray="5 3""# } else { "" };
            let radius = if kind.is_operation() { 3.0 } else { 6.0 };
            self.line(&format!(
                r#"<rect x="{x:.1}" y="{:.1}" width="22" height="12" rx="{radius}" fill="{fill}" stroke="{stroke}"{dashes}/>"#,
                y - 10.0
            ));
            self.text(x + 28.0, y, BODY, "fill=\"#57606a\"", label);
            x += legend_room(label);
        }
    }
}
