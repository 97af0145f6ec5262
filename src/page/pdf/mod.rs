//! Figures as PDF: one page of the size of the drawing, its font in the file.
//!
//! The input is the SVG of a figure ([`FigureFile`](super::FigureFile)), which has few kinds of elements: lines,
//! outlines, rectangles, text and groups that move them. Other elements are left out. The same drawing gives the same
//! bytes, on every machine: nothing is taken from the system, and the file has no date.

mod elements;
mod font;

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, TextStr};
use roxmltree::Document;

use elements::PdfPage;
use font::Font;

/// Points per pixel: 72 of 96 in an inch.
const POINTS: f32 = 0.75;

/// Names of the objects of a file.
const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
const FONT: Ref = Ref::new(6);
/// First of the graphics states, one per opacity.
const STATES: i32 = 20;

/// Converts the SVG of a figure; `None` if the text is no SVG with a size.
pub(super) fn pdf(svg: &str) -> Option<Vec<u8>> {
    let document = Document::parse(svg).ok()?;
    let root = document.root_element();
    let size = |name| root.attribute(name)?.parse::<f32>().ok();
    let (width, height) = (size("width")?, size("height")?);
    let title = root.children().find(|node| node.has_tag_name("title"));

    let font = Font::embedded();
    let mut drawn = PdfPage::new(&font);
    drawn.content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, POINTS * height]);
    drawn.children(root);
    let PdfPage { content, opacities, glyphs, .. } = drawn;

    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut info = pdf.document_info(INFO);
    info.creator(TextStr("fedcast"));
    if let Some(title) = title.and_then(|title| title.text()) {
        info.title(TextStr(title));
    }
    info.finish();
    let mut page = pdf.page(PAGE);
    page.parent(PAGES).media_box(Rect::new(0.0, 0.0, POINTS * width, POINTS * height));
    page.contents(CONTENT);
    let mut resources = page.resources();
    resources.fonts().pair(Name(font::NAME), FONT);
    let mut states = resources.ext_g_states();
    for place in 0..opacities.len() {
        states.pair(Name(state_name(place).as_bytes()), state(place));
    }
    states.finish();
    resources.finish();
    page.finish();
    for (place, opacity) in opacities.iter().enumerate() {
        let opacity = *opacity as f32 / 100.0;
        pdf.ext_graphics(state(place)).non_stroking_alpha(opacity).stroking_alpha(opacity);
    }
    font.write(&mut pdf, FONT, &glyphs);
    stream(&mut pdf, CONTENT, content);
    Some(pdf.finish())
}

fn state(place: usize) -> Ref {
    Ref::new(STATES + place as i32)
}

/// Returns the name of the graphics state of an opacity, by its place.
fn state_name(place: usize) -> String {
    format!("G{place}")
}

fn stream(pdf: &mut Pdf, id: Ref, content: Content) {
    pdf.stream(id, &deflated(&content.finish())).filter(Filter::FlateDecode);
}

/// Compresses bytes for a stream.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("memory takes any bytes")
}

#[cfg(test)]
mod tests;
