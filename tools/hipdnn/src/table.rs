//! Tables of text for a terminal.

use crate::failure::one_line;

/// Rows of cells, laid out in columns. A column whose cells are all numbers is aligned to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading.
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Appends a row. Control characters are removed, since cells may come from plugins.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().map(|row| width(&cell(row, column))).max().unwrap_or(0))
            .collect();
        let right: Vec<bool> = (0..columns)
            .map(|column| self.rows.iter().skip(1).all(|row| is_number(&cell(row, column))))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (width_of, right)) in widths.iter().zip(&right).enumerate() {
                let cell = cell(row, column);
                let blanks = " ".repeat(width_of.saturating_sub(width(&cell)));
                let separator = if column == 0 { "" } else { "  " };
                line.push_str(separator);
                line.push_str(&if *right { blanks + &cell } else { cell + &blanks });
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn is_number(text: &str) -> bool {
    text == "-" || text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["a".to_owned(), "10".to_owned()]);
        table.row(["long×name".to_owned(), "9".to_owned()]);
        assert_eq!(table.text(), "NAME        N\na          10\nlong×name   9\n");
    }
}
