//! Sections of the page.

use maud::Markup;

/// Section of the page: identifier for links, heading, content.
pub(super) struct PageSection {
    pub id: &'static str,
    pub title: &'static str,
    pub body: Markup,
}
