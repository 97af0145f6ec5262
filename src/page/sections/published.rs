//! Published numbers next to measured ones.

use maud::{Markup, html};
use serde_json::Value;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{HtmlTable, with_spread};
use crate::results::{RunRecord, Spread};

/// Returns the grids of a study, and one row per arm and number, if scenarios have `[expected]`.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let grids = grids(content);
    let numbers = numbers(content);
    let body = html! { @for part in grids.iter().chain(&numbers) { (part) } };
    (grids.is_some() || numbers.is_some()).then_some(PageSection::of(
        "published",
        "Published numbers",
        body,
    ))
}

/// Renders the grids of published and measured numbers.
fn grids(content: &PageContent) -> Option<Markup> {
    let grids = &content.grids.grids;
    let tables = grids.iter().map(|grid| {
        let mut table = HtmlTable::new(1, grid.head.clone());
        grid.rows.iter().for_each(|row| table.row(row.clone()));
        table.render(&format!("{}: published / measured here", grid.title))
    });
    let body = html! {
        @for table in tables { (table) }
        @for note in &content.grids.notes { p.note { (note) } }
    };
    (!grids.is_empty()).then_some(body)
}

/// Renders one row per arm and number.
fn numbers(content: &PageContent) -> Option<Markup> {
    let head = ["arm", "number", "source", "published", "here", "difference"];
    let mut table = HtmlTable::new(3, head);
    let mut notes: Vec<String> = Vec::new();
    for (index, arm) in content.arms.iter().enumerate() {
        let all: Vec<&Value> = arm.done().filter_map(published).collect();
        let Some(first) = all.first() else { continue };
        let text = |key: &str| first[key].as_str().unwrap_or("").to_owned();
        for (at, number) in first["numbers"].as_array().into_iter().flatten().enumerate() {
            let here: Vec<f64> = all
                .iter()
                .filter_map(|published| published["numbers"][at]["here"].as_f64())
                .collect();
            let (spread, asked) = (Spread::of(&here), number["published"].as_f64());
            let show = |value: f64| format!("{value:.2}");
            let difference = spread.zip(asked).map(|(spread, asked)| spread.mean - asked);
            let deviation = number["deviation"].as_f64().map(show);
            table.row([
                content.label(index),
                number["metric"].as_str().unwrap_or("").to_owned(),
                text("source"),
                asked.map_or_else(String::new, |asked| with_spread(show(asked), deviation)),
                spread.map_or("not measured".to_owned(), |s| {
                    with_spread(show(s.mean), s.deviation.map(show))
                }),
                difference.map_or_else(String::new, |difference| format!("{difference:+.2}")),
            ]);
        }
        let note = text("note");
        if !note.is_empty() && !notes.contains(&note) {
            notes.push(note);
        }
        let sets = first["overrides"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let sets: Vec<String> = sets.map(|set| format!("--set {set}")).collect();
        if !sets.is_empty() {
            notes.push(format!(
                "{}: the numbers are of the unchanged scenario; these runs have {}",
                content.label(index),
                sets.join(" ")
            ));
        }
    }
    let body = html! {
        (table.render("In % and points, published and measured here"))
        @for note in &notes { p.note { (note) } }
    };
    (!table.rows.is_empty()).then_some(body)
}

fn published(run: &RunRecord) -> Option<&Value> {
    run.summary.as_ref()?.get("published")
}
