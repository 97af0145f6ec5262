//! Meanings of the words of the page.

use maud::html;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::HtmlTable;
use crate::results::{Better, Metric, Unit};

/// Words that are not metrics.
const WORDS: [(&str, &str); 8] = [
    ("arm", "runs that differ only in their seeds"),
    ("n", "runs of an arm that are done and have the metric"),
    (
        "±",
        "sample standard deviation over these runs (n - 1 in the denominator); missing if n is 1",
    ),
    ("seed", "seeds of run, partition and class order; runs are paired if all three are equal"),
    ("task", "classes that arrive together"),
    ("round", "sampled clients train, and the server aggregates their updates"),
    (
        "bytes",
        "whole frames sent over links, headers included; kB, MB and GB are powers of a thousand",
    ),
    ("virtual time", "simulated time of devices and links; wall time is that of the machine"),
];

/// Returns the section, one row per metric and word.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let mut metrics: Vec<Metric> = content.metrics.clone();
    let more = content.unequal.iter().cloned();
    for metric in more {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let mut table = HtmlTable::new(2, ["word", "meaning", "unit", "better"]);
    for metric in &metrics {
        let unit = match metric.unit() {
            Unit::Share => "% (in summary.json and tables a fraction)",
            Unit::Points => "percentage points (in summary.json and tables a fraction)",
            Unit::Bytes => "MB (in summary.json and tables bytes)",
            Unit::Megabytes => "MB",
            Unit::Flops => "TFLOP (in summary.json and tables FLOP)",
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
        (table.render("Metrics, by their names in --metric and study files, and other words"))
        p.note { code { "fedcast help columns" } " describes the columns of all files of a run." }
    };
    (!content.arms.is_empty()).then_some(PageSection::of("words", "Words", body))
}
