//! Rows under headings, as wide as they need to be and no wider than the terminal. Where a row does not fit, each of its
//! cells is shown with its name, on as many lines as it takes.

use unicode_width::UnicodeWidthStr;

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{pad, shorten};
use crate::wrap::{width, wrap};

/// The last column may be cut as long as so much of it is left, unless the terminal is narrow.
const LAST_COLUMNS_MIN: usize = 28;

/// With fewer columns a terminal is narrow.
const NARROW_COLUMNS: usize = 80;

/// Columns before what belongs to a row and does not fit on its first line.
const INDENT: usize = 2;

/// Prints rows under their headings. Cells are safe for a terminal.
pub(crate) fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]], out: &mut Out) -> Outcome {
    print_page(headings, rows, true, out)
}

/// Prints a page of a table, the first one with its headings. Columns are aligned within a page.
pub(crate) fn print_page<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    is_first: bool,
    out: &mut Out,
) -> Outcome {
    let headings = headings.map(str::to_owned);
    let mut widths = [0; N];
    for row in std::iter::once(&headings).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(columns) = out.columns
        && !fits(&widths, columns)
    {
        return rows.iter().try_for_each(|row| named(&headings, row, columns, out));
    }
    let line = |row: &[String; N]| {
        let padded: Vec<String> = row.iter().zip(widths).map(|(cell, width)| pad(cell, width)).collect();
        padded.join("  ").trim_end().to_owned()
    };
    if is_first {
        let heading = line(&headings);
        let heading = out.columns.map_or(heading.as_str().into(), |columns| shorten(&heading, columns));
        let heading = out.paint.bold(&heading).into_owned();
        out.line(format_args!("{heading}"))?;
    }
    for row in rows {
        let line = line(row);
        let line = out.columns.map_or(line.as_str().into(), |columns| shorten(&line, columns));
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

/// Whether all columns fit, the last one with enough of it.
fn fits(widths: &[usize], columns: usize) -> bool {
    let Some((last, others)) = widths.split_last() else { return true };
    let others: usize = others.iter().map(|width| width + 2).sum();
    let last = if columns < NARROW_COLUMNS { *last } else { (*last).min(LAST_COLUMNS_MIN) };
    others + last <= columns
}

/// A row without headings above it: its first cell, and the others with their names.
fn named<const N: usize>(
    headings: &[String; N],
    row: &[String; N],
    columns: usize,
    out: &mut Out,
) -> Outcome {
    let mut lines = String::new();
    let mut used = 0;
    for (n, (heading, cell)) in headings.iter().zip(row).enumerate() {
        let cell = cell.trim();
        if cell.is_empty() {
            continue;
        }
        let name = heading.trim().to_lowercase();
        let shown = match (n, name.as_str()) {
            (0, _) => out.paint.bold(cell).into_owned(),
            (_, "") => cell.to_owned(),
            _ => format!("{} {cell}", out.paint.dim(&name)),
        };
        let wide = width(&shown);
        if used > 0 && used + 2 + wide <= columns {
            lines.push_str("  ");
            used += 2;
        } else if used > 0 {
            lines.push('\n');
            lines.push_str(&" ".repeat(INDENT));
            used = INDENT;
        }
        let room = columns.saturating_sub(used.max(2 * INDENT));
        lines.push_str(&wrap(&shown, Some(room), 0).replace('\n', "\n    "));
        used += wide;
    }
    out.line(format_args!("{lines}"))
}

/// Prints what is known of one thing: names, and what each says.
pub(crate) fn facts<N: AsRef<str>>(rows: &[(N, String)], out: &mut Out) -> Outcome {
    let names = rows.iter().map(|(name, _)| name.as_ref().width()).max().unwrap_or(0);
    for (name, value) in rows {
        let name = out.paint.dim(&pad(name.as_ref(), names)).into_owned();
        out.prose(format_args!("{name}  {value}"), names + 2)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_if_enough_of_its_last_column_does() {
        assert!(fits(&[10, 5], 17));
        assert!(!fits(&[10, 5], 16));
        assert!(fits(&[60, 60], 90));
        assert!(!fits(&[60, 60], 89));
        assert!(!fits(&[10, 60], 71));
        assert!(fits(&[], 1));
    }
}
