//! The difference of two texts, for a reader.

/// The lines that differ, after what both texts have in common at their head and tail, with a little of it around.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    const AROUND: usize = 3;
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail =
        old.iter().skip(head).rev().zip(new.iter().skip(head).rev()).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let start = head.saturating_sub(AROUND);
    let mut text = format!("--- {name} (committed)\n+++ {name} (generated)\n@@ line {} @@\n", start + 1);
    let mut push = |sign: char, lines: &[&str], from: usize, to: usize| {
        for line in lines.iter().take(to).skip(from) {
            text.push(sign);
            text.push_str(line);
            text.push('\n');
        }
    };
    push(' ', &old, start, head);
    push('-', &old, head, old_end);
    push('+', &new, head, new_end);
    push(' ', &new, new_end, (new_end + AROUND).min(new.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn only_the_lines_that_differ_are_marked() {
        let text = unified("f", "a\nb\nc\n", "a\nB\nc\n");
        assert!(text.ends_with("@@ line 1 @@\n a\n-b\n+B\n c\n"), "{text}");
    }

    #[test]
    fn an_empty_text_differs_in_every_line() {
        assert!(unified("f", "", "a\nb\n").ends_with("+a\n+b\n"));
    }
}
