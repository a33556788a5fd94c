//! Shows what was found, and keeps it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Args;
use crate::run::Measured;
use crate::subject::{Column, Error};
use crate::table::{Row, Summary};
use crate::targets::Target;

const RIVALS: [Column; 3] = [Column::Raw, Column::Sqlite, Column::Lago];

/// The tables, the notes and the targets, on standard output.
pub(crate) fn print(measured: &Measured, targets: &[Target]) {
    let machine = &measured.machine;
    println!(
        "\n{}, {} cores, {}, kernel {}",
        machine.cpu, machine.cores, machine.file_system, machine.kernel
    );
    println!("\nMedians over the rounds (smallest to largest):\n");
    println!("{:<38} {:<8} {:>26} {:>26} {:>26} {:>26}", "", "unit", "weir", "raw", "sqlite", "lago");
    for row in &measured.table.0 {
        let cells =
            Column::ALL.map(|column| format!("{:>26}", row.summary(column).map_or("—".into(), spread)));
        println!("{:<38} {:<8} {}", row.name, row.unit, cells.join(" "));
    }
    println!("\nRatios, this journal divided by the other (median over the rounds):\n");
    println!("{:<38} {:<8} {:>10} {:>10} {:>10}", "", "better", "raw", "sqlite", "lago");
    for row in &measured.table.0 {
        let cells = RIVALS.map(|rival| {
            format!("{:>10}", row.ratio(rival).map_or("—".into(), |ratio| number(ratio.median)))
        });
        println!("{:<38} {:<8} {}", row.name, row.better.word(), cells.join(" "));
    }
    for note in &measured.notes {
        println!("\nnote: {note}");
    }
    println!("\nTargets:\n");
    for target in targets {
        let verdict = target.is_met.map_or("not run", |met| if met { "met" } else { "MISSED" });
        let value = target.value.map_or("—".into(), number);
        println!("{verdict:<8} {value:>8}  {}", target.text);
        if !target.remark.is_empty() {
            println!("{:<8} {:>8}  {}", "", "", target.remark);
        }
    }
}

fn spread(summary: Summary) -> String {
    format!("{} ({}–{})", number(summary.median), number(summary.min), number(summary.max))
}

/// Three digits that matter, and no more than needed of the others.
fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "—".to_owned(),
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Everything, raw numbers included, as a file under `bench/results`.
pub(crate) fn save(args: &Args, measured: &Measured, targets: &[Target]) -> Result<PathBuf, Error> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let now = weir_journal::now().to_string();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let report = json!({
        "command": format!("cargo xtask bench journal {}", arguments.join(" ")).trim_end(),
        "date": now,
        "commit": git(bench, &["rev-parse", "HEAD"])?,
        "uncommitted_changes": !git(bench, &["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
        "machine": measured.machine,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "events": args.events,
        "notes": measured.notes,
        "rows": measured.table.0.iter().map(row).collect::<Vec<_>>(),
        "targets": targets,
    });
    let directory = bench.join("results");
    std::fs::create_dir_all(&directory)?;
    let stamp: String = now.chars().take(19).filter(|c| *c != ':').collect();
    let file = directory.join(format!("journal-{stamp}.json"));
    std::fs::write(&file, serde_json::to_string_pretty(&report)? + "\n")?;
    Ok(file)
}

fn row(row: &Row) -> Value {
    let columns = Column::ALL.into_iter().filter_map(|column| {
        let cell = json!({ "summary": row.summary(column)?, "values": row.values.get(&column) });
        Some((column.name().to_owned(), cell))
    });
    let ratios =
        RIVALS.into_iter().filter_map(|rival| Some((rival.name().to_owned(), json!(row.ratio(rival)?))));
    json!({
        "group": row.group,
        "name": row.name,
        "unit": row.unit,
        "better": row.better,
        "columns": columns.collect::<serde_json::Map<_, _>>(),
        "ratios": ratios.collect::<serde_json::Map<_, _>>(),
    })
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new("git").args(arguments).current_dir(directory).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let shown = [12_345.6, 99.94, 1.2345, 0.5, 0.0123, 0.0, f64::NAN].map(number);
        assert_eq!(shown, ["12346", "99.9", "1.23", "0.50", "0.0123", "0", "—"]);
    }
}
