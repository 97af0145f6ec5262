//! Where virtual time and wall time went, stacked by arm.

use maud::html;

use crate::page::Section;
use crate::page::content::Content;
use crate::page::html::{Figure, Mark, Table};
use crate::page::plot::{Bar, Label, bars};
use crate::results::Spread;

/// A kind of time, in parts.
struct Time {
    id: &'static str,
    title: &'static str,
    description: &'static str,
    /// Seconds in `summary.json`, and what they are called.
    parts: &'static [(&'static str, &'static str)],
}

const VIRTUAL: Time = Time {
    id: "virtual-time",
    title: "Virtual time of rounds",
    description: "Mean seconds on the simulated clock, a bar per arm: local work of the client whose update a round closed \
                  with, its frames under way, waiting for deadlines and for clients that are away, and work of the \
                  server's own.",
    parts: &[
        ("/virtual_parts/work_s", "clients' work"),
        ("/virtual_parts/links_s", "links"),
        ("/virtual_parts/waiting_s", "waiting"),
        ("/virtual_parts/server_s", "server"),
    ],
};

const WALL: Time = Time {
    id: "wall-time",
    title: "Wall time of the workers",
    description: "Mean seconds of all workers of a run together, a bar per arm. They are of the machines that computed \
                  the runs and of what else ran there.",
    parts: &[
        ("/wall/train_s", "training"),
        ("/wall/evaluate_s", "evaluation"),
        ("/wall/codec_s", "codec"),
        ("/wall/fold_s", "aggregation"),
        ("/wall/server_s", "server"),
        ("/wall/wait_s", "waiting"),
    ],
};

/// A figure of each kind of time that runs have, with a bar per arm.
pub fn section(content: &Content) -> Option<Section> {
    let figures: Vec<Figure> =
        [VIRTUAL, WALL].iter().filter_map(|time| time.figure(content)).collect();
    if figures.is_empty() {
        return None;
    }
    let body = html! { @for figure in &figures { (figure.render()) } };
    Some(Section { id: "time", title: "Virtual time and wall time", body })
}

impl Time {
    fn figure(&self, content: &Content) -> Option<Figure> {
        let mut rows = Vec::new();
        let mut numbers = Table::new(2, ["arm", "part", "seconds (mean)"]);
        for arm in &content.arms {
            let mean = |pointer| {
                let figures: Vec<f64> = arm.done().filter_map(|run| run.number(pointer)).collect();
                Spread::of(&figures).map(|spread| spread.mean)
            };
            let means: Vec<Option<f64>> =
                self.parts.iter().map(|(pointer, _)| mean(pointer)).collect();
            if means.iter().all(Option::is_none) {
                continue;
            }
            for ((_, part), seconds) in self.parts.iter().zip(&means) {
                let said = Label::Seconds.exact(seconds.unwrap_or(0.0));
                numbers.row([arm.label(), (*part).to_owned(), said]);
            }
            let parts = means.iter().map(|mean| mean.unwrap_or(0.0)).enumerate().collect();
            rows.push(Bar { name: arm.label(), parts });
        }
        let legend = self.parts.iter().enumerate().map(|(n, (_, part))| (n, (*part).to_owned()));
        (!rows.is_empty()).then(|| Figure {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            drawing: bars("seconds", Label::Seconds, &rows),
            mark: Mark::Field,
            legend: legend.collect(),
            numbers,
        })
    }
}
