//! Distributions of frame sizes, virtual latencies, virtual work and wall times.
//!
//! The files have the `.hgrm` text format of HdrHistogram (plotters for it exist everywhere).
//!
//! Values keep three significant digits. A histogram is made when its first value comes, so only kinds and
//! jobs that occur cost memory (at most a few hundred kB each).
//!
//! ```
//! use fedcast::federation::histograms::Histograms;
//! use fedcast::federation::{JobKind, ProfileSink, Span};
//! let mut histograms = Histograms::default();
//! for wall in [1_000_000, 2_000_000, 9_000_000] {
//!     ProfileSink::record(&mut histograms, &Span { job: JobKind::Train, worker: Some(0), waited: 0, wall });
//! }
//! let files: Vec<(String, String)> = histograms.files().collect();
//! assert_eq!(files[0].0, "wall-train-ms.hgrm");
//! assert!(files[0].1.contains("Total count    =            3]"));
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;

use super::ledger::kinds_of;
use super::{Direction, Entry, Event, EventSink, JobKind, ProfileSink, SinkError, Span};
use crate::wire::Kind;

/// Quantity of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Bytes of whole frames.
    Frame(Direction),
    /// Bytes of one kind within frames that carry it.
    Payload(Direction, Kind),
    /// Virtual time from sending to arrival or loss, in nanoseconds.
    Latency(Direction),
    /// Virtual time of local work, in nanoseconds.
    Work,
    /// Wall time of jobs, in nanoseconds. Differs from run to run.
    Wall(JobKind),
}

impl Quantity {
    /// Returns the name of its file.
    pub fn file(self) -> String {
        let way = |d| match d {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        match self {
            Quantity::Frame(d) => format!("frame-{}-bytes.hgrm", way(d)),
            Quantity::Payload(d, kind) => format!("payload-{}-{kind}-bytes.hgrm", way(d)),
            Quantity::Latency(d) => format!("latency-{}-ms.hgrm", way(d)),
            Quantity::Work => "work-ms.hgrm".into(),
            Quantity::Wall(job) => {
                let job = match job {
                    JobKind::Train => "train",
                    JobKind::Retry => "retry",
                    JobKind::Aggregate => "aggregate",
                    JobKind::Server => "server",
                    JobKind::Evaluate => "evaluate",
                    JobKind::Codec => "codec",
                    JobKind::Bias => "bias",
                    JobKind::Snapshot => "snapshot",
                    JobKind::Journal => "journal",
                    JobKind::Idle => "idle",
                };
                format!("wall-{job}-ms.hgrm")
            }
        }
    }

    /// Returns the divisor of recorded values in the file: nanoseconds are written as milliseconds.
    fn unit(self) -> f64 {
        match self {
            Quantity::Frame(_) | Quantity::Payload(..) => 1.0,
            Quantity::Latency(_) | Quantity::Work | Quantity::Wall(_) => 1e6,
        }
    }
}

/// The distributions of a run. Listens to events, to spans, or to both.
#[derive(Clone, Debug, Default)]
pub struct Histograms {
    of: BTreeMap<Quantity, Histogram<u64>>,
}

impl Histograms {
    /// Adds a value.
    pub fn add(&mut self, quantity: Quantity, value: u64) {
        let new = || Histogram::new(3).expect("three digits are allowed");
        let values = self.of.entry(quantity).or_insert_with(new);
        // `record` makes room for any u64; `saturating_record` would cut off at the room there is.
        if values.record(value).is_err() {
            values.saturating_record(value);
        }
    }

    /// Returns the distribution of a quantity, if it occurred.
    pub fn get(&self, quantity: Quantity) -> Option<&Histogram<u64>> {
        self.of.get(&quantity)
    }

    /// Returns the name and content of every file, in order.
    pub fn files(&self) -> impl Iterator<Item = (String, String)> {
        self.of.iter().map(|(quantity, values)| (quantity.file(), hgrm(values, quantity.unit())))
    }
}

impl EventSink for Histograms {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::FrameCharged { direction, bytes, latency, .. } => {
                self.add(Quantity::Frame(*direction), bytes.frame());
                self.add(Quantity::Latency(*direction), *latency);
                for (kind, bytes) in kinds_of(bytes)?.iter() {
                    self.add(Quantity::Payload(*direction, kind), bytes.0);
                }
            }
            Event::ClientTrained { work_ns: worked, .. } => self.add(Quantity::Work, *worked),
            _ => {}
        }
        Ok(())
    }
}

impl ProfileSink for Histograms {
    fn record(&mut self, span: &Span) {
        // Sums of many short pieces, which have no distribution.
        if !matches!(span.job, JobKind::Journal | JobKind::Idle) {
            self.add(Quantity::Wall(span.job), span.wall);
        }
    }
}

/// Returns the percentile table in the format of HdrHistogram's own tools.
///
/// It has five steps per halving of the distance to 100 %.
fn hgrm(values: &Histogram<u64>, unit: f64) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments| {
        text.write_fmt(args).expect("a String takes everything");
        text.push('\n');
    };
    line(format_args!(
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    ));
    let mut count = 0;
    for step in values.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, at) = (step.value_iterated_to() as f64 / unit, step.quantile_iterated_to());
        if at < 1.0 {
            let odds = 1.0 / (1.0 - at);
            line(format_args!("{value:>12.3} {at:>14.12} {count:>10} {odds:>14.2}"));
        } else {
            line(format_args!("{value:>12.3} {at:>14.12} {count:>10}"));
        }
    }
    line(format_args!(
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        values.mean() / unit,
        values.stdev() / unit
    ));
    line(format_args!(
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        values.max() as f64 / unit,
        values.len()
    ));
    line(format_args!("#[Buckets = {:>12}, SubBuckets     = {:>12}]", values.buckets(), 2048));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::{FrameBytes, FrameOutcome};
    use crate::policy::ParticipantKind;
    use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};

    fn charged(direction: Direction, payload: u64, latency: u64) -> Entry {
        let kinds = [("prompt".to_owned(), payload)].into();
        let bytes = FrameBytes { header: 40, payload, kinds, ..FrameBytes::default() };
        let event = Event::FrameCharged {
            round: Round(0),
            task: TaskId(0),
            phase: 0,
            participant: ParticipantId(0),
            client: ClientId(0),
            direction,
            outcome: FrameOutcome::Delivered,
            sent: bytes.frame(),
            bytes: bytes.into(),
            latency,
            kind: ParticipantKind::Client,
            copy: false,
            asset: None,
        };
        Entry { seq: 0, at: VirtualTime::ZERO, event, numbers: None }
    }

    #[test]
    fn frames_are_sorted_by_direction_and_kind() {
        let mut all = Histograms::default();
        for i in 1..=100 {
            EventSink::record(&mut all, &charged(Direction::Up, 10 * i, i * 1_000_000)).unwrap();
        }
        EventSink::record(&mut all, &charged(Direction::Down, 5, 7)).unwrap();
        let names: Vec<String> = all.files().map(|(name, _)| name).collect();
        let want = [
            "frame-down-bytes.hgrm",
            "frame-up-bytes.hgrm",
            "payload-down-prompt-bytes.hgrm",
            "payload-up-prompt-bytes.hgrm",
            "latency-down-ms.hgrm",
            "latency-up-ms.hgrm",
        ];
        assert_eq!(names, want);
        let up = all.get(Quantity::Payload(Direction::Up, Kind::Prompt)).unwrap();
        assert_eq!((up.len(), up.value_at_quantile(0.5)), (100, 500));
        let frames = all.get(Quantity::Frame(Direction::Up)).unwrap();
        assert_eq!(frames.max(), 1040);
        let latency = all.get(Quantity::Latency(Direction::Up)).unwrap();
        assert!((latency.value_at_quantile(0.9) as f64 / 90e6 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_text_is_what_plotters_read() {
        let mut all = Histograms::default();
        for value in [1u64, 2, 3, 4] {
            all.add(Quantity::Work, value * 1_000_000);
        }
        let (_, text) = all.files().next().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "       1.000 0.000000000000          1           1.00");
        let counts: Vec<u64> = lines[2..lines.len() - 3]
            .iter()
            .map(|l| l.split_whitespace().nth(2).unwrap().parse().unwrap())
            .collect();
        assert!(counts.is_sorted() && counts.last() == Some(&4), "{counts:?}");
        assert!(lines[lines.len() - 3].starts_with("#[Mean    =        2.5"));
        assert!(lines[lines.len() - 1].starts_with("#[Buckets ="));
    }

    #[test]
    fn extreme_values_are_kept() {
        let mut all = Histograms::default();
        all.add(Quantity::Work, 0);
        all.add(Quantity::Work, u64::MAX);
        let work = all.get(Quantity::Work).unwrap();
        assert_eq!(work.len(), 2);
        assert!(work.max() as f64 > 1.8e19);
    }
}
