//! Rows under headings, as wide as they need to be and no wider than the terminal.

use unicode_width::UnicodeWidthStr;

use crate::output::Out;
use crate::report::Outcome;
use crate::show::{pad, shorten};

/// Prints rows under their headings. Cells are safe for a terminal.
pub(crate) fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]], out: &mut Out) -> Outcome {
    let headings = headings.map(str::to_owned);
    let mut widths = [0; N];
    for row in std::iter::once(&headings).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |row: &[String; N]| {
        let padded: Vec<String> = row.iter().zip(widths).map(|(cell, width)| pad(cell, width)).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let heading = out.paint.bold(&line(&headings)).into_owned();
    out.line(format_args!("{heading}"))?;
    for row in rows {
        let line = line(row);
        let line = out.columns.map_or(line.as_str().into(), |columns| shorten(&line, columns));
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}
