// SPDX-License-Identifier: GPL-2.0

//! Text in aligned columns.

/// The side to which a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of text below titles.
#[derive(Debug)]
pub(crate) struct Columns {
    titles: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Creates an empty table. Titles that begin with `>` are those of columns of numbers, which are
    /// aligned to the right.
    pub(crate) fn new(titles: &[&str]) -> Self {
        let titles = titles.iter().map(|title| match title.strip_prefix('>') {
            Some(title) => (title.to_owned(), Align::Right),
            None => ((*title).to_owned(), Align::Left),
        });
        Self {
            titles: titles.collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Returns the lines, the titles first, each with a newline.
    pub(crate) fn text(&self) -> String {
        let titles: Vec<String> = self.titles.iter().map(|(title, _)| title.clone()).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let width = |at: usize| {
            let cells = lines().filter_map(|row| row.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.titles.len()).map(width).collect();
        lines().map(|row| self.line(row, &widths)).collect()
    }

    /// Returns one line.
    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in row.iter().zip(widths).zip(&self.titles) {
            match align {
                Align::Left => line += &format!("{cell:<width$}  "),
                Align::Right => line += &format!("{cell:>width$}  "),
            }
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned() {
        let mut columns = Columns::new(&["name", ">n"]);
        columns.push(vec!["a".into(), "100".into()]);
        columns.push(vec!["longer".into(), "7".into()]);
        assert_eq!(columns.text(), "name      n\na       100\nlonger    7\n");
    }
}
