// SPDX-License-Identifier: GPL-2.0

//! A table in debugfs: the first line names the columns, and each other line is a row.
//!
//! Columns are found by their names, so that newer modules can add some. The last column may have
//! spaces.

use serde_json::{
    Map,
    Value, //
};
use std::sync::Arc;

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    titles: Arc<[String]>,
    /// The rows, in the order of the file.
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Parses a file.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let titles: Arc<[String]> = lines
            .next()
            .unwrap_or("")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let rows = lines
            .filter(|line| !line.trim().is_empty())
            .map(|line| Row::parse(&titles, line))
            .collect();
        Self { titles, rows }
    }

    /// Returns true if the table has the column `title`.
    pub(crate) fn has(&self, title: &str) -> bool {
        self.titles.iter().any(|each| each == title)
    }

    /// Returns the names of the columns.
    pub(crate) fn titles(&self) -> &[String] {
        &self.titles
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    titles: Arc<[String]>,
    fields: Vec<String>,
}

impl Row {
    /// Parses a line.
    fn parse(titles: &Arc<[String]>, line: &str) -> Self {
        let mut fields = Vec::with_capacity(titles.len());
        let mut rest = line.trim();
        while fields.len() + 1 < titles.len() {
            let (field, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            fields.push(field.to_owned());
            rest = after.trim_start();
        }
        fields.push(rest.to_owned());
        Self {
            titles: titles.clone(),
            fields,
        }
    }

    /// Returns a field. Fields without a value, which the module shows as `-`, and columns that the
    /// table lacks have none.
    pub(crate) fn text(&self, title: &str) -> Option<&str> {
        let at = self.titles.iter().position(|each| each == title)?;
        let field = self.fields.get(at)?.as_str();
        (!field.is_empty() && field != "-").then_some(field)
    }

    /// Returns a field that is a number.
    pub(crate) fn number(&self, title: &str) -> Option<u64> {
        self.text(title)?.parse().ok()
    }

    /// Returns all fields by the names of their columns: numbers, strings, or null without a value.
    pub(crate) fn json(&self) -> Value {
        let fields = self.titles.iter().map(|title| {
            let value = match (self.number(title), self.text(title)) {
                (Some(number), _) => number.into(),
                (None, Some(text)) => text.into(),
                (None, None) => Value::Null,
            };
            (title.clone(), value)
        });
        Value::Object(Map::from_iter(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let table = Table::parse("a later b\nx 18446744073709551615 -\n");
        assert!(table.has("later") && !table.has("c"));
        let row = &table.rows[0];
        assert_eq!(row.text("a"), Some("x"));
        assert_eq!(row.number("later"), Some(u64::MAX));
        assert_eq!(row.text("b"), None);
        assert_eq!(row.text("c"), None);
        assert_eq!(
            row.json(),
            serde_json::json!({"a": "x", "later": u64::MAX, "b": null})
        );
    }

    #[test]
    fn the_last_column_may_have_spaces() {
        let table = Table::parse("n reason\n1 closed by the peer (event 10)\n2 x\n");
        assert_eq!(
            table.rows[0].text("reason"),
            Some("closed by the peer (event 10)")
        );
        assert_eq!(table.rows[1].text("reason"), Some("x"));
    }

    #[test]
    fn short_lines_and_empty_files_have_no_values() {
        let table = Table::parse("a b c\n1\n\n");
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0].number("a"), Some(1));
        assert_eq!(table.rows[0].text("c"), None);
        assert!(Table::parse("").rows.is_empty());
    }
}
