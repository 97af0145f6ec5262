//! Published numbers next to measured ones.

use maud::html;
use serde_json::Value;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{HtmlTable, with_spread};
use crate::results::{RunRecord, Spread};

/// Returns one row per arm and number, if scenarios have `[expected]`.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let head = ["arm", "number", "source", "published", "here", "difference"];
    let mut table = HtmlTable::new(3, head);
    let mut notes: Vec<String> = Vec::new();
    for arm in &content.arms {
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
            table.row([
                arm.label(),
                number["metric"].as_str().unwrap_or("").to_owned(),
                text("source"),
                asked.map_or_else(String::new, show),
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
        for set in first["overrides"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            notes.push(format!(
                "{}: the numbers are of the unchanged scenario; these runs have --set {set}",
                arm.label()
            ));
        }
    }
    let body = html! {
        (table.render("In % and points, published and measured here"))
        @for note in &notes { p.note { (note) } }
    };
    (!table.rows.is_empty()).then_some(PageSection {
        id: "published",
        title: "Published numbers",
        body,
    })
}

fn published(run: &RunRecord) -> Option<&Value> {
    run.summary.as_ref()?.get("published")
}
