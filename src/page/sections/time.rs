//! Virtual time and wall time by part, stacked by arm.

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark};
use crate::page::plot::{Bar, Label, bars};
use crate::results::Spread;

/// Kind of time and its parts.
struct Time {
    id: &'static str,
    title: &'static str,
    description: &'static str,
    /// Keys of the seconds in `summary.json`, and their names.
    parts: &'static [(&'static str, &'static str)],
}

const VIRTUAL: Time = Time {
    id: "virtual-time",
    title: "Virtual time of rounds",
    description: "Mean seconds of virtual time, one bar per arm: local work of the client whose update closed a round, \
                  transfer of its frames, waiting for deadlines and for clients that are away, and the server's own \
                  work.",
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
    description: "Mean seconds of all workers of a run, one bar per arm. They depend on the machines that computed \
                  the runs and on their other load.",
    parts: &[
        ("/wall/train_s", "training"),
        ("/wall/evaluate_s", "evaluation"),
        ("/wall/codec_s", "codec"),
        ("/wall/aggregate_s", "aggregation"),
        ("/wall/server_s", "server"),
        ("/wall/wait_s", "waiting"),
    ],
};

/// Returns one figure per kind of time that runs have, with one bar per arm.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let figures: Vec<Figure> =
        [VIRTUAL, WALL].iter().filter_map(|time| time.figure(content)).collect();
    PageSection::of_figures("time", "Virtual time and wall time", figures)
}

impl Time {
    fn figure(&self, content: &PageContent) -> Option<Figure> {
        let mut rows = Vec::new();
        let mut numbers = HtmlTable::new(2, ["arm", "part", "seconds (mean)"]);
        for (index, arm) in content.arms.iter().enumerate() {
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
                numbers.arm_row(index, [content.label(index), (*part).to_owned(), said]);
            }
            let parts = means.iter().map(|mean| mean.unwrap_or(0.0)).enumerate().collect();
            rows.push(Bar { name: content.label(index), parts });
        }
        let legend = self.parts.iter().enumerate().map(|(n, (_, part))| (n, (*part).to_owned()));
        (!rows.is_empty()).then(|| Figure {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            drawings: vec![bars("seconds", Label::Seconds, &rows)],
            mark: Mark::Field,
            legend: legend.collect(),
            numbers,
        })
    }
}
