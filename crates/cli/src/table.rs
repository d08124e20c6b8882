//! Tables on the terminal: columns as wide as their widest cell, figures right-aligned.

/// Lays out `rows` of figures under `header`.
pub(crate) fn lay_out<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    aligned(header, rows, N)
}

/// As [`lay_out`], with words in the last column.
pub(crate) fn lay_out_with_text<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    aligned(header, rows, N - 1)
}

fn aligned<const N: usize>(header: [&str; N], rows: &[[String; N]], figures: usize) -> String {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut cells: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        for text in &mut cells[figures..] {
            *text = text.trim_start().to_owned();
        }
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(header);
    for row in rows {
        text.push_str(&line(std::array::from_fn(|column| row[column].as_str())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["4 KiB".to_owned(), "1".to_owned()], ["16 MiB".to_owned(), "1000".to_owned()]];
        assert_eq!(lay_out(["buffer", "runs"], &rows), "buffer  runs\n 4 KiB     1\n16 MiB  1000\n");
    }
}
