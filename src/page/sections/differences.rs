//! Differences between the scenarios of arms.

use maud::html;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::HtmlTable;
use crate::results::{Differences, Flat};

/// Returns keys that differ, with one column per arm, and defaults of methods that others lack.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let scenarios: Vec<&Flat> = content.arms.iter().map(|arm| &arm.scenario).collect();
    let differences = Differences::of(&scenarios, &content.methods);
    if differences.is_empty() {
        return None;
    }
    let names = (0..content.arms.len()).map(|arm| content.label(arm));
    let mut table = HtmlTable::new(1, ["key".to_owned()].into_iter().chain(names));
    for difference in &differences.keys {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let values = difference.values.iter().map(value);
        table.row([difference.key.clone()].into_iter().chain(values));
    }
    // Arms of one method have the same defaults.
    let mut defaults: Vec<(String, String)> = Vec::new();
    for (arm, keys) in content.arms.iter().zip(&differences.defaults) {
        let method = arm.runs.first().map_or_else(String::new, |run| run.manifest.method.clone());
        let entry = (method, keys.join(", "));
        if !keys.is_empty() && !defaults.contains(&entry) {
            defaults.push(entry);
        }
    }
    let body = html! {
        @if !table.rows.is_empty() { (table.render("Keys that differ, seeds excluded; - if a scenario does not have the key")) }
        @if !defaults.is_empty() {
            details {
                summary { "Keys of one method only, with their defaults" }
                dl { @for (method, keys) in &defaults { dt { (method) } dd { code { (keys) } } } }
            }
        }
    };
    Some(PageSection::of("scenarios", "Differences between scenarios", body))
}
