//! Sections of the page.

use maud::{Markup, html};

use super::html::Figure;

/// Section of the page: identifier for links, heading, content, and the figures in it.
pub(super) struct PageSection {
    pub id: &'static str,
    pub title: &'static str,
    pub body: Markup,
    pub figures: Vec<Figure>,
}

impl PageSection {
    /// Returns a section without figures.
    pub fn of(id: &'static str, title: &'static str, body: Markup) -> PageSection {
        PageSection { id, title, body, figures: Vec::new() }
    }

    /// Returns a section of figures, if there are any.
    pub fn of_figures(
        id: &'static str,
        title: &'static str,
        figures: Vec<Figure>,
    ) -> Option<PageSection> {
        let body = html! { @for figure in &figures { (figure.render()) } };
        (!figures.is_empty()).then_some(PageSection { id, title, body, figures })
    }
}
