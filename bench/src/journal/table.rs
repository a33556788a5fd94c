//! The table of results: rows of numbers, by column and round.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use crate::subject::Column;
use crate::work::{Metrics, median};

/// Rows that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Group {
    /// One session
    #[value(name = "append-1")]
    Append1,
    /// 8 sessions
    #[value(name = "append-8")]
    Append8,
    /// 64 sessions
    #[value(name = "append-64")]
    Append64,
    /// 512 sessions
    #[value(name = "append-512")]
    Append512,
    /// Scan, last 100, head and memory, in the large journal
    Read,
    /// Open: empty, large, and large after a kill
    Open,
    /// Forks, and reading through them
    Fork,
    /// Bytes on disk of the large journal
    Disk,
}

impl Group {
    pub(crate) const APPENDS: [(Self, usize); 4] =
        [(Self::Append1, 1), (Self::Append8, 8), (Self::Append64, 64), (Self::Append512, 512)];
}

/// Which way is better; neither, for what only explains another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
    Neither,
}

impl Better {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "",
        }
    }
}

/// One row: what a metric of a group is called, and what was found.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) group: Group,
    /// The metric's name, in what a measurement reports.
    metric: &'static str,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) values: BTreeMap<Column, Vec<f64>>,
}

/// Median and spread over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        let median = median(&mut sorted);
        Some(Self { median, min: *sorted.first()?, max: *sorted.last()? })
    }
}

impl Row {
    pub(crate) fn summary(&self, column: Column) -> Option<Summary> {
        Summary::of(self.values.get(&column)?)
    }

    /// This journal's number divided by another column's, round by round.
    pub(crate) fn ratio(&self, to: Column) -> Option<Summary> {
        let (ours, theirs) = (self.values.get(&Column::Weir)?, self.values.get(&to)?);
        Summary::of(&ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
    }

    /// How many times better than another column: above 1 is ahead, whichever way is better.
    pub(crate) fn advantage(&self, over: Column) -> Option<f64> {
        let ratio = self.ratio(over)?.median;
        match self.better {
            Better::Higher => Some(ratio),
            Better::Lower => Some(1.0 / ratio),
            Better::Neither => None,
        }
    }
}

/// All rows, in the order they are printed.
#[derive(Clone, Debug)]
pub(crate) struct Table(pub(crate) Vec<Row>);

impl Table {
    /// The rows of these groups, still empty.
    pub(crate) fn new(groups: &[Group]) -> Self {
        use Better::{Higher, Lower, Neither};
        let mut rows = Vec::new();
        let mut row = |group, metric, name: String, unit, better| {
            rows.push(Row { group, metric, name, unit, better, values: BTreeMap::new() });
        };
        for (group, sessions) in Group::APPENDS {
            let name =
                |what: &str| format!("{what}, {sessions} session{}", if sessions == 1 { "" } else { "s" });
            row(group, "events_per_second", name("durable appends"), "events/s", Higher);
            row(group, "p50_us", name("append p50"), "µs", Lower);
            row(group, "p99_us", name("append p99"), "µs", Lower);
            row(group, "events_per_commit", name("mean batch"), "events", Neither);
            row(group, "flushes_per_commit", name("disk flushes per commit"), "", Neither);
            row(group, "checkpoints", name("checkpoints meanwhile"), "", Neither);
            row(group, "written_per_payload_byte", name("written per payload byte"), "B/B", Lower);
        }
        row(Group::Read, "scan_events_per_second", "read a stream of 10k".into(), "events/s", Higher);
        row(Group::Read, "last_100_us", "last 100 events".into(), "µs", Lower);
        row(Group::Read, "head_us", "head".into(), "µs", Lower);
        row(Group::Read, "resident_mb", "resident memory, large, after reads".into(), "MB", Lower);
        row(Group::Read, "resident_most_mb", "resident memory at most".into(), "MB", Lower);
        row(Group::Open, "empty_ms", "open, empty".into(), "ms", Lower);
        row(Group::Open, "clean_ms", "open, large".into(), "ms", Lower);
        row(Group::Open, "killed_ms", "open, large, after a kill".into(), "ms", Lower);
        row(Group::Fork, "fork_us", "fork".into(), "µs", Lower);
        row(Group::Fork, "through_us_per_event", "read through 64 forks, per event".into(), "µs", Lower);
        row(Group::Fork, "flat_us_per_event", "the same without forks, per event".into(), "µs", Lower);
        row(
            Group::Disk,
            "length_per_payload_byte",
            "file length per payload byte, large".into(),
            "B/B",
            Lower,
        );
        row(Group::Disk, "allocated_per_payload_byte", "disk per payload byte, large".into(), "B/B", Lower);
        Self(rows.into_iter().filter(|row| groups.contains(&row.group)).collect())
    }

    /// Adds what one measurement of `group` found in one round.
    pub(crate) fn add(&mut self, group: Group, column: Column, found: &Metrics) {
        for row in self.0.iter_mut().filter(|row| row.group == group) {
            if let Some(value) = found.get(row.metric) {
                row.values.entry(column).or_default().push(*value);
            }
        }
    }

    pub(crate) fn row(&self, group: Group, metric: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.group == group && row.metric == metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_formed_within_a_round() {
        let mut table = Table::new(&[Group::Append1]);
        for (ours, theirs) in [(10.0, 1.0), (20.0, 10.0), (30.0, 10.0)] {
            table.add(Group::Append1, Column::Weir, &[("p50_us".to_owned(), ours)].into());
            table.add(Group::Append1, Column::Lago, &[("p50_us".to_owned(), theirs)].into());
        }
        let row = table.row(Group::Append1, "p50_us").unwrap();
        assert_eq!(row.summary(Column::Weir), Some(Summary { median: 20.0, min: 10.0, max: 30.0 }));
        assert_eq!(row.ratio(Column::Lago), Some(Summary { median: 3.0, min: 2.0, max: 10.0 }));
        assert_eq!(row.advantage(Column::Lago), Some(1.0 / 3.0));
        assert_eq!(row.ratio(Column::Raw), None);
    }
}
