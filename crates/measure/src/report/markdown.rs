//! Tables as Markdown, for a message or a document of one's own: rounded as on the page.

/// A table, right-aligned but for the first column.
pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    text += &format!("|---|{}\n", "---:|".repeat(header.len() - 1));
    for row in rows {
        text += &line(&row.iter().map(|text| cell(text)).collect::<Vec<_>>());
    }
    text
}

/// What can be in a cell: a bar or a new line would end it, and markup would become some.
pub(crate) fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

/// Asserts that a text holds a table of so many rows, each with as many cells as its header.
#[cfg(test)]
pub(crate) fn assert_sound(table: &str, rows: usize) {
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), rows + 2, "{table}");
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{table}");
    assert!(!table.contains("NaN"));
}
