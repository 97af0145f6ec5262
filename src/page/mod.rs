//! Report of a study or of several runs as one self-contained HTML file: no network, script or font.
//!
//! [`PageContent::gather`] reads runs and sorts them into arms; [`render`] writes the page. The page depends on the
//! files of the runs only, so that the same runs give the same bytes. Every drawing has a title, a description and its
//! numbers as a table; heat maps *are* tables whose cells are tinted.
//!
//! ```
//! use fedcast::methods::Registry;
//! use fedcast::page::{PageContent, render};
//!
//! let content = PageContent::gather(&["no/such/study".into()], &[], &Registry::builtin())?;
//! let page = render(&content);
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("no runs"));
//! # Ok::<(), fedcast::study::StudyError>(())
//! ```

#![allow(
    clippy::disallowed_methods,
    reason = "drawings are for people: no result passes through them"
)]

mod axes;
mod content;
mod figure_files;
mod html;
mod options;
mod pdf;
pub mod plot;
mod section;
mod sections;

use maud::{DOCTYPE, PreEscaped, html as markup};

pub use content::{PageContent, Undone};
pub use figure_files::{FigureFile, figure_files};
pub use options::{CellRecord, ReportOptions};
use section::PageSection;

/// Renders the page.
pub fn render(content: &PageContent) -> String {
    let sections: Vec<PageSection> = sections::all(content);
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "fedcast " (env!("CARGO_PKG_VERSION")) };
                title { (content.title) " - fedcast" }
                style { (PreEscaped(html::style())) }
            }
            body {
                a.skip href="#main" { "Skip to the results" }
                header {
                    h1 { (content.title) }
                    (sections::summary(content))
                    nav aria-label="Contents" { ol { @for section in &sections {
                        li { a href={ "#" (section.id) } { (section.title) } }
                    } } }
                }
                main id="main" { @for section in &sections {
                    section aria-labelledby=(section.id) {
                        h2 id=(section.id) { (section.title) }
                        (section.body)
                    }
                } }
            }
        }
    };
    let mut text = page.into_string();
    text.push('\n');
    text
}
