//! Cells that are not done, with the reason, and commands that compute every run again.

use maud::{Markup, html};

use crate::experiment::names;
use crate::files::shell_word;
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::HtmlTable;
use crate::results::RunRecord;

/// Returns the cells that are not done, and a command for each run that is.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let body = html! { (undone(content)) (commands(content)) };
    (!content.arms.is_empty() || !content.undone.is_empty())
        .then_some(PageSection::of("cells", "Runs", body))
}

fn undone(content: &PageContent) -> Markup {
    let mut table = HtmlTable::new(3, ["run", "status", "error"]);
    for cell in &content.undone {
        table.row([cell.name.as_str(), &cell.status, &cell.error]);
    }
    html! {
        @if !table.rows.is_empty() {
            h3 { "Not done" }
            (table.render("Not done, left out of all means"))
        }
    }
}

fn commands(content: &PageContent) -> Markup {
    let runs: Vec<&RunRecord> = content.arms.iter().flat_map(|arm| arm.done()).collect();
    html! {
        @if !runs.is_empty() {
            h3 { "Repeating the runs" }
            @if let Some(run) = runs.iter().find(|run| run.manifest.forked.is_none()) {
                p.note {
                    "The first line repeats the first run, from its scenario with all defaults written out; the second "
                    "executes it again and compares every event and number with the journal. Paths are those given to "
                    "the report."
                }
                pre { (run_again(run)) "\n" (verify(run)) }
            }
            @if runs.iter().any(|run| run.manifest.forked.is_some()) {
                p.note {
                    "Forked runs begin with the first tasks of another run: they are repeated by "
                    code { "fedcast fork" } " from that run, and verified by the commands below. Their times and "
                    "bytes are of all tasks, but only those after the fork were computed."
                }
            }
            details {
                summary { "Every run: seeds, digests, command" }
                (table(&runs).render("Runs with equal digests are equal: E covers the events, N also every number"))
            }
        }
    }
}

fn run_again(run: &RunRecord) -> String {
    let scenario = run.path.join(names::SCENARIO);
    format!("fedcast run {} -o again", shell_word(scenario))
}

fn verify(run: &RunRecord) -> String {
    format!("fedcast replay {} --verify", shell_word(&run.path))
}

fn table(runs: &[&RunRecord]) -> HtmlTable {
    let mut table = HtmlTable::new(1, ["seed", "digests", "scenario", "command"]);
    for run in runs {
        let digests = run.manifest.digests.as_ref().map_or_else(String::new, ToString::to_string);
        let hash: String = run.manifest.scenario.hash.chars().take(8).collect();
        table.row([run.manifest.seeds.run.to_string(), digests, hash, verify(run)]);
    }
    table.words = 4;
    table
}
