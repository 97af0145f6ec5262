//! Parts of the page.

use maud::Markup;

/// A part of the page: what links call it, its heading, what is in it.
pub(super) struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub body: Markup,
}
