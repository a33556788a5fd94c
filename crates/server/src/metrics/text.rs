//! The text that Prometheus reads.

use std::fmt::{Display, Write as _};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_types::Position;

use super::{BUCKETS, Metrics};
use crate::app::App;

/// Everything, as it is now.
pub(super) fn written(app: &App, position: Position) -> String {
    let mut text = Text(String::new());
    let build = app.builds.current().map(|build| build.hash.to_string()).unwrap_or_default();
    let labels = format!("version=\"{}\",manifest=\"{build}\"", env!("CARGO_PKG_VERSION"));
    text.head("weir_info", "gauge", "What runs here.");
    text.line("weir_info", &labels, 1);
    requests(&app.metrics, &mut text);
    let metrics = &app.metrics;
    let now = Ordering::Relaxed;
    text.single(
        "weir_http_requests_open",
        "Requests that are being answered.",
        metrics.open_requests.load(now),
    );
    text.single("weir_streams_open", "Streams that are being read.", metrics.open_streams.load(now));
    text.single("weir_sessions_active", "Sessions in memory.", app.engine.active());
    counters(metrics, &mut text);
    runs(metrics, &mut text);
    text.single("weir_journal_position", "The newest position of the journal.", position.0);
    if let Some(bytes) = resident_bytes() {
        text.single("process_resident_memory_bytes", "Memory of this process.", bytes);
    }
    text.0
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    fn single(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        let _ = writeln!(self.0, "{name} {value}");
    }
}

fn counters(metrics: &Metrics, text: &mut Text) {
    let name = "weir_connections_refused_total";
    text.head(name, "counter", "Connections that were closed because their address had too many.");
    let _ = writeln!(text.0, "{name} {}", metrics.refused_connections());
    let name = "weir_panics_total";
    text.head(name, "counter", "Handlers that panicked; each is a mistake of this program.");
    let _ = writeln!(text.0, "{name} {}", metrics.panics.load(Ordering::Relaxed));
}

fn requests(metrics: &Metrics, text: &mut Text) {
    let routes = metrics.routes();
    let name = "weir_http_requests_total";
    text.head(name, "counter", "Requests that were answered.");
    for ((route, method), counted) in &*routes {
        for (status, count) in &counted.statuses {
            text.line(name, &format!("route=\"{route}\",method=\"{method}\",status=\"{status}\""), count);
        }
    }
    let name = "weir_http_request_duration_seconds";
    text.head(name, "histogram", "Time until an answer began.");
    for ((route, method), counted) in &*routes {
        let labels = format!("route=\"{route}\",method=\"{method}\"");
        let mut so_far = 0;
        for (end, count) in BUCKETS.iter().zip(counted.buckets) {
            so_far += count;
            text.line(&format!("{name}_bucket"), &format!("{labels},le=\"{}\"", seconds(*end)), so_far);
        }
        text.line(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), counted.count);
        text.line(&format!("{name}_sum"), &labels, seconds(counted.took));
        text.line(&format!("{name}_count"), &labels, counted.count);
    }
}

fn runs(metrics: &Metrics, text: &mut Text) {
    let name = "weir_runs_total";
    text.head(name, "counter", "Runs that ended or were parked, by why.");
    for (reason, count) in &*metrics.runs() {
        text.line(name, &format!("stop=\"{reason}\""), count);
    }
    let tokens = *metrics.tokens.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "weir_tokens_total";
    text.head(name, "counter", "Tokens of models; the input includes what came from a cache or went there.");
    for (kind, count) in [
        ("input", tokens.input_tokens),
        ("output", tokens.output_tokens),
        ("cache_read", tokens.cache_read_tokens),
        ("cache_write", tokens.cache_write_tokens),
    ] {
        text.line(name, &format!("kind=\"{kind}\""), count);
    }
    let name = "weir_cost_usd_total";
    text.head(name, "counter", "What models have cost.");
    let nano = metrics.nano_usd.load(Ordering::Relaxed);
    let _ = writeln!(text.0, "{name} {}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000);
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// How much memory this process has, where the system says. No disk is asked for it.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, StatusCode};
    use weir_types::{NanoUsd, Usage};

    use super::*;

    fn text(write: impl Fn(&Metrics, &mut Text), metrics: &Metrics) -> Vec<String> {
        let mut text = Text(String::new());
        write(metrics, &mut text);
        text.0.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn what_was_spent_is_told_in_tokens_and_dollars() {
        let metrics = Metrics::default();
        let usage =
            Usage { input_tokens: 40, output_tokens: 30, cache_read_tokens: 20, cache_write_tokens: 10 };
        for _ in 0..2 {
            metrics.spent(usage, NanoUsd(750_000_001));
        }
        metrics.ended("end");
        let expected = [
            "weir_runs_total{stop=\"end\"} 1",
            "weir_tokens_total{kind=\"input\"} 80",
            "weir_tokens_total{kind=\"output\"} 60",
            "weir_tokens_total{kind=\"cache_read\"} 40",
            "weir_tokens_total{kind=\"cache_write\"} 20",
            "weir_cost_usd_total 1.500000002",
        ];
        assert_eq!(text(runs, &metrics), expected);
    }

    #[test]
    fn refused_connections_are_counted() {
        let metrics = Metrics::default();
        metrics.refused_connection();
        metrics.refused_connection();
        let expected = ["weir_connections_refused_total 2", "weir_panics_total 0"];
        assert_eq!(text(counters, &metrics), expected);
    }

    #[test]
    fn a_bucket_holds_what_is_not_slower_than_it_says() {
        let metrics = Metrics::default();
        for millis in [1, 3, 3, 40, 500_000] {
            let took = Duration::from_millis(millis);
            metrics.answered(Some("/x"), &Method::GET, StatusCode::OK, took);
        }
        let lines = text(requests, &metrics);
        let of = |le: &str| {
            let begins = format!(
                "weir_http_request_duration_seconds_bucket{{route=\"/x\",method=\"GET\",le=\"{le}\"}} "
            );
            lines.iter().find_map(|line| line.strip_prefix(&begins)).map(str::to_owned).unwrap_or_default()
        };
        let buckets = ["0.001", "0.0025", "0.005", "0.025", "0.05", "120", "+Inf"].map(of);
        assert_eq!(buckets, ["1", "1", "3", "3", "4", "4", "5"]);
        let rest = &lines[lines.len() - 2..];
        let labels = "{route=\"/x\",method=\"GET\"}";
        let expected = [
            format!("weir_http_request_duration_seconds_sum{labels} 500.047"),
            format!("weir_http_request_duration_seconds_count{labels} 5"),
        ];
        assert_eq!(rest, expected);
    }
}
