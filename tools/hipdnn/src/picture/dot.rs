//! Writes a graph for Graphviz, which draws it and converts it to other formats.

use super::diagram::{Diagram, Kind};
use super::svg::colours;

/// The picture's boxes and edges in the DOT language.
pub fn write(name: &str, diagram: &Diagram) -> String {
    let mut text = format!("digraph {} {{\n", quoted(name));
    text.push_str(
        "  node [fontname=\"Helvetica\" fontsize=11];\n  edge [fontname=\"Helvetica\" fontsize=9];\n",
    );
    for (at, item) in diagram.items.iter().enumerate() {
        let (fill, line, letters) = colours(item.kind);
        let (shape, line) = if item.kind.is_operation() { ("box", fill) } else { ("ellipse", line) };
        let style = if item.kind == Kind::Virtual { "filled,dashed" } else { "filled" };
        let label = [std::slice::from_ref(&item.title), &item.lines].concat().join("\n");
        text.push_str(&format!(
            "  n{at} [label={} tooltip={} shape={shape} style={style:?} fillcolor={fill:?} color={line:?} fontcolor={letters:?}];\n",
            quoted(&label),
            quoted(&item.tip)
        ));
    }
    for edge in &diagram.edges {
        let style = if edge.is_offset { " style=dotted" } else { "" };
        text.push_str(&format!("  n{} -> n{} [label={}{style}];\n", edge.from, edge.to, quoted(&edge.role)));
    }
    text.push_str("}\n");
    text
}

/// Quotes a text literally: Graphviz interprets escapes and XML entities in labels.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '&' => quoted.push_str("&amp;"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn escapes_and_entities_in_names_are_text() {
        assert_eq!(quoted("a\"]; b\\N\n&lt;\0"), "\"a\\\"]; b\\\\N\\n&amp;lt;\u{fffd}\"");
    }
}
