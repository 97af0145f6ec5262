//! Metrics of runs, by name.

use std::fmt;

use super::ResultsError;
use super::catalogue::{BY_KIND, EVENT_MEANS, KNOWN, MetricSource, UNTIL};
use crate::scenario::reader::nearest;

/// Direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
    /// The metric describes a run; no direction is better.
    Neither,
}

/// Unit of a metric. Values are in base units; [`Metric::show`] scales them for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Fraction in `0..=1`, shown in %.
    Share,
    /// Difference of fractions, shown in percentage points.
    Points,
    /// Bytes, shown in MB (10^6 bytes).
    Bytes,
    /// Seconds of virtual or wall time, shown unscaled.
    Seconds,
    /// Megabytes (10^6 bytes), shown unscaled.
    Megabytes,
    /// Floating-point operations, shown in TFLOP (10^12).
    Flops,
    /// Count, such as rounds, clients or sample passes; no symbol.
    Count,
    /// Number without a unit: an entropy, a cosine, a fraction as a server reports it.
    Number,
}

impl Unit {
    /// Returns the factor from base unit to shown unit.
    pub fn scale(self) -> f64 {
        match self {
            Unit::Share | Unit::Points => 100.0,
            Unit::Bytes => 1e-6,
            Unit::Flops => 1e-12,
            Unit::Seconds | Unit::Megabytes | Unit::Count | Unit::Number => 1.0,
        }
    }

    /// Returns the symbol after a shown difference.
    pub fn of_differences(self) -> &'static str {
        if self == Unit::Share { Unit::Points.symbol() } else { self.symbol() }
    }

    /// Returns the symbol after a shown value.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Share => "%",
            Unit::Points => "points",
            Unit::Bytes | Unit::Megabytes => "MB",
            Unit::Seconds => "s",
            Unit::Flops => "TFLOP",
            Unit::Count | Unit::Number => "",
        }
    }
}

/// Metric of a run, such as `faa`, `bytes_up_prompt` or `rounds_to:0.8`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    name: String,
    title: String,
    unit: Unit,
    better: Better,
    pub(super) source: MetricSource,
}

impl Metric {
    /// Returns true if the metric is predicted from the scenario.
    pub fn is_planned(&self) -> bool {
        matches!(self.source, MetricSource::Planned(_))
    }

    /// Returns the metric of this name.
    ///
    /// # Errors
    /// Fails if there is none; the message suggests a similar name.
    pub fn parse(name: &str) -> Result<Metric, ResultsError> {
        if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
            return Ok(Metric {
                name: name.to_owned(),
                title: known.title.to_owned(),
                unit: known.unit,
                better: known.better,
                source: known.source.clone(),
            });
        }
        if let Some((prefix, behind)) = name.split_once(':')
            && let Some((_, title, unit, cost)) = UNTIL.iter().find(|until| until.0 == prefix)
        {
            let threshold = behind.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
            let share: f64 =
                threshold.ok_or_else(|| ResultsError::Threshold { name: name.to_owned() })?;
            return Ok(Metric {
                name: name.to_owned(),
                title: format!("{title} {} %", 100.0 * share),
                unit: *unit,
                better: Better::Lower,
                source: MetricSource::Until(*cost, share),
            });
        }
        if let Some((prefix, figure)) =
            name.split_once(':').filter(|(_, figure)| !figure.is_empty())
            && let Some((_, event, mean)) = EVENT_MEANS.iter().find(|entry| entry.0 == prefix)
        {
            return Ok(Metric {
                name: name.to_owned(),
                title: format!("{}, {mean}", figure.replace('_', " ")),
                unit: Unit::Number,
                better: Better::Neither,
                source: MetricSource::EventMean(event, figure.to_owned()),
            });
        }
        Metric::of_kind(name).ok_or_else(|| unknown(name))
    }

    /// Returns a metric such as `bytes_up_prompt`. Any word is accepted as a kind, since kinds depend on runs.
    fn of_kind(name: &str) -> Option<Metric> {
        let (prefix, way, title) = BY_KIND.iter().find(|by| name.starts_with(by.0))?;
        let kind = name.strip_prefix(prefix).filter(|kind| !kind.is_empty())?;
        kind.chars().all(|c| c.is_ascii_lowercase() || c == '_').then(|| Metric {
            name: name.to_owned(),
            title: format!("{title}: {kind}"),
            unit: Unit::Bytes,
            better: Better::Lower,
            source: MetricSource::Kind(way, kind.to_owned()),
        })
    }

    /// Returns the metric of one kind of payload in one direction (`up` or `down`).
    ///
    /// Kind `control` is everything else in frames.
    pub fn bytes_of_kind(way: &str, kind: &str) -> Option<Metric> {
        Metric::of_kind(&format!("bytes_{way}_{kind}"))
    }

    /// Returns every metric with a fixed name, in the order of tables.
    pub fn all() -> impl Iterator<Item = Metric> {
        KNOWN.iter().filter_map(|known| Metric::parse(known.name).ok())
    }

    /// Returns the name, as in [`parse`](Self::parse) and in columns.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the title, for headings.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the direction that is better.
    pub fn better(&self) -> Better {
        self.better
    }

    /// Returns true for the cost of reaching an accuracy; a run without the value never reached it.
    pub fn is_until(&self) -> bool {
        matches!(self.source, MetricSource::Until(..))
    }

    /// Returns title and unit, such as `final average accuracy, %`.
    pub fn heading(&self) -> String {
        match self.unit.symbol() {
            "" => self.title.clone(),
            symbol => format!("{}, {symbol}", self.title),
        }
    }

    /// Formats a value in its shown unit without symbol; all values of a metric have the same decimals.
    pub fn show(&self, value: f64) -> String {
        let decimals = match self.unit {
            Unit::Share | Unit::Points | Unit::Seconds | Unit::Flops => 2,
            Unit::Bytes | Unit::Number => 3,
            Unit::Megabytes | Unit::Count => 1,
        };
        let shown = format!("{:.decimals$}", value * self.unit.scale());
        // A value shown as 0 has no sign.
        let shown = match shown.strip_prefix('-') {
            Some(bare) if bare.chars().all(|c| c == '0' || c == '.') => bare.to_owned(),
            _ => shown,
        };
        match self.unit {
            // Counts are whole, but not their means.
            Unit::Count => shown.strip_suffix(".0").map(str::to_owned).unwrap_or(shown),
            _ => shown,
        }
    }

    /// Formats a value as [`show`](Self::show) does, for people: digits in groups, and no fraction of a large count.
    ///
    /// ```
    /// use fedcast::results::Metric;
    ///
    /// let metric = Metric::parse("sample_passes")?;
    /// assert_eq!(metric.show_grouped(23883.3), "23,883");
    /// # Ok::<(), fedcast::results::ResultsError>(())
    /// ```
    pub fn show_grouped(&self, value: f64) -> String {
        let is_large = self.unit == Unit::Count && value.abs() >= 1000.0;
        grouped(&self.show(if is_large { value.round() } else { value }))
    }

    /// Returns a brief heading with its unit for tables of papers, such as `FAA (%)`.
    pub fn short_heading(&self) -> String {
        let short = SHORT.iter().find(|(name, _)| *name == self.name).map(|(_, short)| *short);
        let short = short.unwrap_or(&self.title);
        match self.unit.symbol() {
            "" => short.to_owned(),
            symbol => format!("{short} ({symbol})"),
        }
    }

    /// Formats a difference as [`show_grouped`](Self::show_grouped) does, with its sign; 0 has none.
    pub fn show_signed(&self, value: f64) -> String {
        let shown = self.show_grouped(value);
        let is_more = value > 0.0 && shown != self.show(0.0);
        if is_more { format!("+{shown}") } else { shown }
    }

    /// Returns true if `one` is better than `other`.
    pub fn prefers(&self, one: f64, other: f64) -> bool {
        match self.better {
            Better::Higher => one > other,
            Better::Lower => one < other,
            Better::Neither => false,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Brief headings of metrics whose titles are long.
const SHORT: [(&str, &str); 25] = [
    ("faa", "FAA"),
    ("micro", "Accuracy"),
    ("average_incremental", "AIA"),
    ("average_incremental_micro", "AIA, micro"),
    ("average_from_second_stage", "Avg. from task 2"),
    ("average_from_second_stage_micro", "Avg. from task 2, micro"),
    ("forgetting", "Forgetting"),
    ("forgetting_from_best", "Forgetting from best"),
    ("forgetting_from_best_of_all", "Forgetting, all"),
    ("backward_transfer", "Backward transfer"),
    ("bytes", "Traffic"),
    ("bytes_down", "Download"),
    ("bytes_up", "Upload"),
    ("bytes_per_round", "Traffic a round"),
    ("bytes_down_per_round", "Download a round"),
    ("bytes_up_per_round", "Upload a round"),
    ("wasted_up", "Unused upload"),
    ("frames", "Messages"),
    ("rounds", "Rounds"),
    ("participants", "Participants"),
    ("silent_participants", "Silent"),
    ("sample_passes", "Sample passes"),
    ("client_memory", "Client memory"),
    ("virtual_s", "Virtual time"),
    ("wall_s", "Wall time"),
];

/// Returns a number with its digits in groups of three.
fn grouped(shown: &str) -> String {
    let (whole, rest) = match shown.split_once('.') {
        Some((whole, rest)) => (whole, format!(".{rest}")),
        None => (shown, String::new()),
    };
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    let count = digits.len();
    let mut text = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (count - place) % 3 == 0 && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text + &rest
}

fn unknown(name: &str) -> ResultsError {
    // Common words for metrics that have other names here.
    let other = match name {
        "accuracy" | "average_accuracy" | "final_accuracy" => Some("faa"),
        "average_incremental_accuracy" => Some("average_incremental"),
        "clients_asked" => Some("clients_sampled"),
        "memory" => Some("peak_memory_mb"),
        // Names of schema 1.
        "seats" => Some("participants"),
        "silent_seats" => Some("silent_participants"),
        _ => None,
    };
    let names = KNOWN.iter().map(|known| known.name).chain(UNTIL.iter().map(|until| until.0));
    let help = match other.or_else(|| nearest(name.split(':').next().unwrap_or(name), names)) {
        Some(word) if UNTIL.iter().any(|until| until.0 == word) => {
            format!("did you mean `{word}:0.8`?")
        }
        Some(word) => format!("did you mean `{word}`?"),
        None => {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            format!(
                "use one of {}, bytes_up_KIND, bytes_down_KIND, figure:NAME for numbers of the server's rounds, client:NAME for numbers of clients' training, or rounds_to:A, bytes_to:A, virtual_s_to:A for an accuracy A",
                names.join(", ")
            )
        }
    };
    ResultsError::UnknownMetric { name: name.to_owned(), help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_is_unique() {
        for known in KNOWN {
            assert_eq!(Metric::parse(known.name).unwrap().name(), known.name);
            assert_eq!(KNOWN.iter().filter(|other| other.name == known.name).count(), 1);
        }
    }

    #[test]
    fn thresholds_kinds_and_typos() {
        let until = Metric::parse("rounds_to:0.8").unwrap();
        assert_eq!(until.title(), "rounds until accuracy 80 %");
        let kind = Metric::parse("bytes_up_prompt").unwrap();
        assert_eq!(kind.source, MetricSource::Kind("up", "prompt".into()));
        let of_clients = Metric::parse("client:ce_plain").unwrap();
        assert_eq!(of_clients.title(), "ce plain, mean over trainings of clients");
        let of_server = Metric::parse("figure:ce_plain").unwrap();
        assert_eq!(of_server.title(), "ce plain, mean over rounds");
        for (typo, hint) in [
            ("rounds_to:80", "above 0 and at most 1"),
            ("rounds_to:", "above 0 and at most 1"),
            ("rounds_too:0.8", "`rounds_to:0.8`"),
            ("forgeting", "`forgetting`"),
            ("average_accuracy", "`faa`"),
            ("happiness", "use one of faa"),
            ("happiness:loss", "client:NAME"),
        ] {
            let error = Metric::parse(typo).unwrap_err().to_string();
            assert!(error.contains(hint), "{typo}: {error}");
        }
    }

    #[test]
    fn large_numbers_have_groups_and_whole_counts() {
        let show = |name: &str, value: f64| Metric::parse(name).unwrap().show_grouped(value);
        assert_eq!(show("sample_passes", 23_883.333), "23,883");
        assert_eq!(show("sample_passes", 999.25), "999.2");
        assert_eq!(show("virtual_s", -1_234_567.125), "-1,234,567.12");
        assert_eq!(
            (show("virtual_s", 123.0), show("faa", 1.0)),
            ("123.00".into(), "100.00".into())
        );
    }

    #[test]
    fn brief_headings_are_of_metrics() {
        for (name, short) in SHORT {
            let metric = Metric::parse(name).unwrap();
            assert!(short.len() < metric.heading().len() || name == "rounds", "{name}");
            assert!(metric.short_heading().starts_with(short));
        }
        assert_eq!(Metric::parse("faa").unwrap().short_heading(), "FAA (%)");
        assert_eq!(
            Metric::parse("rounds_to:0.5").unwrap().short_heading(),
            "rounds until accuracy 50 %"
        );
    }

    #[test]
    fn values_are_shown_in_units_of_people() {
        let show = |name: &str, value: f64| Metric::parse(name).unwrap().show(value);
        assert_eq!(show("faa", 0.90584), "90.58");
        assert_eq!(show("bytes_up", 7_259_765.0), "7.260");
        assert_eq!(
            (show("participants", 250.0), show("participants", 250.5)),
            ("250".into(), "250.5".into())
        );
        assert_eq!((show("faa", -0.00004), show("bytes", -0.0)), ("0.00".into(), "0.000".into()));
        assert_eq!(
            (show("participants", -0.04), show("faa", -0.0001)),
            ("0".into(), "-0.01".into())
        );
        let faa = Metric::parse("faa").unwrap();
        let signed = [0.0123, 0.00004, 0.0, -0.00004, -0.0123].map(|value| faa.show_signed(value));
        assert_eq!(signed, ["+1.23", "0.00", "0.00", "0.00", "-1.23"]);
        assert!(Metric::parse("bytes_up").unwrap().prefers(1.0, 2.0));
        assert!(Metric::parse("faa").unwrap().prefers(2.0, 1.0));
        assert!(!Metric::parse("participants").unwrap().prefers(1.0, 2.0));
    }
}
