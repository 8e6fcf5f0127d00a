//! Text inside a picture: its width, shortening, escaping.

/// The approximate width of a text, assuming a wide font.
pub fn width(text: &str, size: f64) -> f64 {
    let units: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | 'I' => 0.42,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.95,
            '_' => 0.52,
            c if c.is_ascii_uppercase() => 0.70,
            c if c.is_ascii() => 0.62,
            '×' | '·' | '…' | '²' => 0.8,
            _ => 1.0,
        })
        .sum();
    units * size
}

/// At most `most` characters, ending with an ellipsis if cut.
pub fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Escapes XML's five special characters and replaces characters that XML does not allow.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("</text><script>\"&'\u{0}"), "&lt;/text&gt;&lt;script&gt;&quot;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(short("convolution", 5), "conv…");
        assert_eq!(short("äöü", 3), "äöü");
        assert!(width("wide", 10.0) > width("ill", 10.0));
    }
}
