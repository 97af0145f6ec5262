//! Head of the page: versions, machines, data and progress of the runs.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::page::content::PageContent;
use crate::quantity::WallSeconds;
use crate::results::{Metric, RunRecord};

/// Returns versions, machines, seeds, wall time and cells.
pub fn summary(content: &PageContent) -> Markup {
    let runs = || content.arms.iter().flat_map(|arm| &arm.runs);
    let of = |what: &dyn Fn(&RunRecord) -> String| -> String {
        let all: BTreeSet<String> = runs().map(what).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    };
    let numbers = |what: fn(&RunRecord) -> u64| -> String {
        let all: BTreeSet<u64> = runs().map(what).collect();
        all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    };
    let machine = |run: &RunRecord| {
        let machine = &run.manifest.machine;
        let devices = run.manifest.devices.join(", ");
        let (cpu, cores, vectors) = (&machine.cpu, machine.cores, &machine.vectors);
        format!(
            "{cpu}, {cores} cores, {}, vectors {vectors}, computed on {devices}",
            machine.platform
        )
    };
    let data = |run: &RunRecord| {
        run.manifest.data.as_ref().map_or_else(String::new, |data| data.name.clone())
    };
    let version = |run: &RunRecord| {
        let commit = run.manifest.commit.as_ref().map(|commit| format!(" ({commit})"));
        format!("{}{}", run.manifest.fedcast, commit.unwrap_or_default())
    };
    let memory = Metric::parse("peak_memory_mb").ok();
    let memory = runs().filter_map(|run| run.figure(memory.as_ref()?)).fold(0.0, f64::max);
    let done = runs().filter(|run| run.is_done()).count();
    let undone = content.undone.len();
    let wall = Metric::parse("wall_s").ok();
    let wall: f64 = runs().filter_map(|run| run.figure(wall.as_ref()?)).sum();
    html! {
        dl {
            dt { "Runs" }
            dd {
                (done) " done in " (content.arms.len()) @if content.arms.len() == 1 { " arm" } @else { " arms" }
                @if undone > 0 { ", " a href="#cells" { (undone) " not done" } }
            }
            @if !content.left_out.is_empty() {
                dt { "Left out" }
                @for why in &content.left_out { dd { (why) } }
            }
            dt { "Methods" } dd { (of(&|run| run.manifest.method.clone())) }
            dt { "Data" } dd { (of(&data)) }
            dt { "Seeds" }
            dd {
                "run " (numbers(|run| run.manifest.seeds.run))
                "; partition " (numbers(|run| run.manifest.seeds.partition))
                "; class order " (numbers(|run| run.manifest.seeds.class_order))
            }
            dt { "Wall time" } dd { (WallSeconds(wall)) ", sum of all runs" }
            @if let Some((first, last)) = dates(content) { dt { "Computed" } dd { (first) " to " (last) } }
            @if memory > 0.0 { dt { "Peak memory" } dd { (format!("{memory:.0} MB")) ", maximum over runs" } }
            dt { "Version" } dd { "fedcast " (of(&version)) }
            dt { "Machine" } dd { (of(&machine)) }
        }
    }
}

/// Returns the start of the first run and the end of the last.
fn dates(content: &PageContent) -> Option<(&String, &String)> {
    let costs = || content.arms.iter().flat_map(|arm| &arm.runs).map(|run| &run.manifest.cost);
    // All texts have one form, so that their order is that of times.
    let first = costs().filter_map(|cost| cost.started.as_ref()).min()?;
    Some((first, costs().filter_map(|cost| cost.ended.as_ref()).max()?))
}
