//! The promises that the benchmark checks.

use serde::Serialize;

use crate::subject::Column;
use crate::table::{Better, Group, Row, Table};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) text: String,
    /// None if this run did not measure it.
    pub(crate) value: Option<f64>,
    pub(crate) limit: f64,
    pub(crate) is_met: Option<bool>,
    pub(crate) remark: String,
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

fn target(text: impl Into<String>, value: Option<f64>, limit: Limit) -> Target {
    let (limit, is_met): (f64, fn(f64, f64) -> bool) = match limit {
        Limit::AtLeast(limit) => (limit, |value, limit| value >= limit),
        Limit::AtMost(limit) => (limit, |value, limit| value <= limit),
    };
    let is_met = value.map(|value| is_met(value, limit));
    Target { text: text.into(), value, limit, is_met, remark: String::new() }
}

/// Every target, with what this run found.
pub(crate) fn judge(table: &Table) -> Vec<Target> {
    use Limit::{AtLeast, AtMost};
    let ratio = |group, metric, to| Some(table.row(group, metric)?.ratio(to)?.median);
    let ours = |group, metric| Some(table.row(group, metric)?.summary(Column::Weir)?.median);
    let rate = "events_per_second";

    let mut targets = vec![
        flushes(table),
        target(
            "p50 of a lone durable append ≤ 1.25 × raw",
            ratio(Group::Append1, "p50_us", Column::Raw),
            AtMost(1.25),
        ),
        target(
            "64 sessions ≥ 0.25 of raw group commit",
            ratio(Group::Append64, rate, Column::Raw),
            AtLeast(0.25),
        ),
        target("64 sessions ≥ 0.4 of raw (stretch)", ratio(Group::Append64, rate, Column::Raw), AtLeast(0.4)),
        target("512 sessions ≥ 0.15 of raw", ratio(Group::Append512, rate, Column::Raw), AtLeast(0.15)),
        target("64 sessions ≥ 10 × lago-journal", ratio(Group::Append64, rate, Column::Lago), AtLeast(10.0)),
        ahead_of_lago(table),
        target(
            "ordered scan ≥ 0.6 of lago-journal",
            ratio(Group::Read, "scan_events_per_second", Column::Lago),
            AtLeast(0.6),
        ),
    ];
    for (group, sessions) in Group::APPENDS {
        let share = ours(group, "events_per_commit").map(|batch| batch / sessions as f64);
        targets.push(target(format!("mean batch ≥ 0.9 of {sessions} session(s)"), share, AtLeast(0.9)));
    }
    let (empty, killed) = (ours(Group::Open, "empty_ms"), ours(Group::Open, "killed_ms"));
    let slower = killed.zip(empty).map(|(killed, empty)| killed / empty);
    targets.extend([
        target("disk ≤ 0.8 per payload byte", ours(Group::Disk, "allocated_per_payload_byte"), AtMost(0.8)),
        target("open after a kill within 2 × of an empty one", slower, AtMost(2.0)),
        target(
            "the large journal in a process of ≤ 100 MB",
            ours(Group::Read, "resident_most_mb"),
            AtMost(100.0),
        ),
    ]);
    targets
}

/// The engine counts its commits, the disk its flushes. A raw file does one `fdatasync` per commit, so as many flushes per
/// commit as it has mean one sync.
fn flushes(table: &Table) -> Target {
    let row = table.row(Group::Append1, "flushes_per_commit");
    let value =
        row.and_then(|row| Some(row.summary(Column::Weir)?.median / row.summary(Column::Raw)?.median));
    let mut target =
        target("one sync per commit (disk flushes per commit, against raw)", value, Limit::AtMost(1.1));
    target.remark =
        "checkpoints are counted in, and so is what others do to the disk; the exact count is the test \
                     `a_commit_costs_one_sync`"
            .into();
    target
}

/// The worst advantage over the rival, of all rows that have no target of their own.
fn ahead_of_lago(table: &Table) -> Target {
    let own = |row: &&Row| {
        let is_64 = row.group == Group::Append64 && row.better == Better::Higher;
        let is_scan = row.group == Group::Read && row.better == Better::Higher;
        !is_64 && !is_scan
    };
    let advantages =
        table.0.iter().filter(own).filter_map(|row| Some((row.advantage(Column::Lago)?, &row.name)));
    let mut behind: Vec<(f64, &String)> = advantages.collect();
    behind.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let worst = behind.first().map(|(advantage, _)| *advantage);
    let mut target = target(
        "ahead of lago-journal in every other row (the worst, times better)",
        worst,
        Limit::AtLeast(1.0),
    );
    behind.retain(|(advantage, _)| *advantage < 1.0);
    let names: Vec<String> =
        behind.iter().map(|(advantage, name)| format!("{name} ({advantage:.2})")).collect();
    target.remark = if names.is_empty() { String::new() } else { format!("behind in: {}", names.join("; ")) };
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(Group, &str, Column, f64)]) -> Table {
        let mut table = Table::new(&[Group::Append1, Group::Append64, Group::Read, Group::Open]);
        for &(group, metric, column, value) in rows {
            table.add(group, column, &[(metric.to_owned(), value)].into());
        }
        table
    }

    fn verdict(table: &Table, text: &str) -> (Option<bool>, String) {
        let found = judge(table).into_iter().find(|target| target.text.contains(text)).unwrap();
        (found.is_met, found.remark)
    }

    #[test]
    fn a_target_is_met_missed_or_not_measured() {
        let lone = |ours| {
            table(&[
                (Group::Append1, "p50_us", Column::Weir, ours),
                (Group::Append1, "p50_us", Column::Raw, 100.0),
            ])
        };
        assert_eq!(verdict(&lone(124.0), "lone durable append").0, Some(true));
        assert_eq!(verdict(&lone(126.0), "lone durable append").0, Some(false));
        assert_eq!(verdict(&table(&[]), "lone durable append").0, None);
        let killed = |ms| {
            table(&[
                (Group::Open, "empty_ms", Column::Weir, 2.0),
                (Group::Open, "killed_ms", Column::Weir, ms),
            ])
        };
        assert_eq!(verdict(&killed(3.9), "after a kill").0, Some(true));
        assert_eq!(verdict(&killed(4.1), "after a kill").0, Some(false));
    }

    #[test]
    fn the_rows_behind_lago_are_named() {
        let both = |ours, theirs| {
            table(&[
                (Group::Read, "head_us", Column::Weir, ours),
                (Group::Read, "head_us", Column::Lago, theirs),
                (Group::Read, "scan_events_per_second", Column::Weir, 1.0),
                (Group::Read, "scan_events_per_second", Column::Lago, 2.0),
            ])
        };
        assert_eq!(verdict(&both(10.0, 20.0), "every other row"), (Some(true), String::new()));
        assert_eq!(
            verdict(&both(20.0, 10.0), "every other row"),
            (Some(false), "behind in: head (0.50)".into())
        );
    }
}
