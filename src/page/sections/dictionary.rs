//! What the words of the page mean.

use maud::html;

use crate::page::Section;
use crate::page::content::Content;
use crate::page::html::Table;
use crate::results::{Better, Metric, Unit};

/// Words that are no metric.
const WORDS: [(&str, &str); 8] = [
    ("arm", "runs that differ in nothing but their seeds"),
    ("n", "runs of an arm that are done and have the figure"),
    ("±", "sample deviation over those runs (n - 1 in the denominator); missing where n is 1"),
    (
        "seed",
        "of the run, of the partition and of the order of classes; runs pair where all three are equal",
    ),
    ("task", "classes that arrive together"),
    ("round", "clients are sampled, train, and what they send is aggregated"),
    (
        "bytes",
        "whole frames as they cross links, headers included; kB, MB and GB are powers of a thousand",
    ),
    ("virtual time", "the simulated clock of devices and links; wall time is that of the machine"),
];

/// A row per metric and word.
pub fn section(content: &Content) -> Option<Section> {
    let mut metrics: Vec<Metric> = content.metrics.clone();
    let more = content.unequal.iter().cloned();
    for metric in more {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let mut table = Table::new(2, ["word", "meaning", "unit", "better"]);
    for metric in &metrics {
        let unit = match metric.unit() {
            Unit::Share => "% (in summary.json and tables a share of one)",
            Unit::Points => "percentage points (in summary.json and tables a share of one)",
            Unit::Bytes => "MB (in summary.json and tables bytes)",
            Unit::Megabytes => "MB",
            Unit::Seconds => "s",
            Unit::Count | Unit::Number => "",
        };
        let better = match metric.better() {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "",
        };
        table.row([metric.name(), metric.title(), unit, better]);
    }
    for (word, meaning) in WORDS {
        table.row([word, meaning, "", ""]);
    }
    let body = html! {
        (table.render("Metrics by the name that --metric and study files take, and other words"))
        p.note { code { "fedcast help columns" } " explains every column of every file of a run." }
    };
    (!content.arms.is_empty()).then_some(Section { id: "words", title: "Words", body })
}
