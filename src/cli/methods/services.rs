//! Capabilities that methods support, derived from message layouts and from the methods' restrictions.

use super::messages::{ReferenceClient, build};
use crate::methods::{MethodEntry, Registry};
use crate::policy::{Capability, CapabilityError, check_capability};
use crate::report::TextTable;

/// Checks every capability for a method; `None` if it is supported, else the reason.
pub(super) fn answers(
    registry: &Registry,
    entry: &MethodEntry,
) -> Vec<(Capability, Option<CapabilityError>)> {
    let reference = ReferenceClient::default();
    let Some(method) = build(registry, entry, &reference) else { return Vec::new() };
    let answer = |service| (service, check_capability(&*method, &reference.facts, service));
    Capability::ALL.map(answer).into()
}

/// Returns a table with one row per method and one column per capability.
pub(super) fn table(registry: &Registry) -> String {
    let head = ["with defaults"].into_iter().chain(Capability::ALL.map(Capability::word));
    let mut table = TextTable::new(head).left(1 + Capability::ALL.len()).repeated(1);
    for entry in registry.all() {
        let answers = answers(registry, entry).into_iter();
        let words = answers.map(|(_, refusal)| if refusal.is_none() { "yes" } else { "-" });
        table.row([entry.name].into_iter().chain(words));
    }
    table.render()
}

/// Returns one line per capability: `yes`, or the reason why it is not supported.
pub(super) fn lines(registry: &Registry, entry: &MethodEntry) -> String {
    let line = |(service, refusal): (Capability, Option<CapabilityError>)| {
        let answer = refusal.map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
        format!("    {:19}{answer}\n", service.word())
    };
    answers(registry, entry).into_iter().map(line).collect()
}
