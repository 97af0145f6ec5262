//! Where wall time went, stacked by arm.

use maud::html;

use crate::page::Section;
use crate::page::content::Content;
use crate::page::html::{Figure, Mark, Table};
use crate::page::plot::{Bar, Label, bars};
use crate::results::Spread;

/// Seconds of workers in `summary.json`, and what they are called.
const PARTS: [(&str, &str); 6] = [
    ("/wall/train_s", "training"),
    ("/wall/evaluate_s", "evaluation"),
    ("/wall/codec_s", "codec"),
    ("/wall/fold_s", "aggregation"),
    ("/wall/server_s", "server"),
    ("/wall/wait_s", "waiting"),
];

/// A bar per arm.
pub fn section(content: &Content) -> Option<Section> {
    let mut rows = Vec::new();
    let mut numbers = Table::new(2, ["arm", "part", "seconds (mean)"]);
    for arm in &content.arms {
        let mean = |pointer| {
            let figures: Vec<f64> = arm.done().filter_map(|run| run.number(pointer)).collect();
            Spread::of(&figures).map(|spread| spread.mean)
        };
        let means: Vec<Option<f64>> = PARTS.iter().map(|(pointer, _)| mean(pointer)).collect();
        if means.iter().all(Option::is_none) {
            continue;
        }
        for ((_, part), seconds) in PARTS.iter().zip(&means) {
            let said = Label::Seconds.exact(seconds.unwrap_or(0.0));
            numbers.row([arm.label(), (*part).to_owned(), said]);
        }
        let parts = means.iter().map(|mean| mean.unwrap_or(0.0)).enumerate().collect();
        rows.push(Bar { name: arm.label(), parts });
    }
    if rows.is_empty() {
        return None;
    }
    let figure = Figure {
        id: "wall-time".to_owned(),
        title: "Wall time of the workers".to_owned(),
        description: "Mean seconds of all workers of a run together, a bar per arm. They are of the machines that computed \
                      the runs and of what else ran there."
            .to_owned(),
        drawing: bars("seconds", Label::Seconds, &rows),
        mark: Mark::Field,
        legend: PARTS.iter().enumerate().map(|(n, (_, part))| (n, (*part).to_owned())).collect(),
        numbers,
    };
    let body = html! { (figure.render()) };
    Some(Section { id: "time", title: "Wall time", body })
}
