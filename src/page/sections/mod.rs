//! Sections of the page, one file each. A section without content is left out.

mod bytes;
mod cells;
mod confusion;
mod curves;
mod dictionary;
mod differences;
mod inversions;
mod matrices;
mod metrics;
mod participation;
mod partition;
mod published;
mod results;
mod settings;
mod stragglers;
mod summary;
mod tasks;
mod time;

use super::PageSection;
use super::content::PageContent;

pub(super) use summary::summary;

/// Returns all sections that have content, in order.
pub(super) fn all(content: &PageContent) -> Vec<PageSection> {
    let parts: [fn(&PageContent) -> Option<PageSection>; 18] = [
        results::section,
        published::section,
        metrics::section,
        tasks::section,
        curves::section,
        bytes::section,
        matrices::section,
        confusion::section,
        partition::section,
        participation::section,
        stragglers::section,
        inversions::section,
        time::section,
        settings::section,
        differences::section,
        participation::frames_section,
        cells::section,
        dictionary::section,
    ];
    parts.iter().filter_map(|part| part(content)).collect()
}
