//! Elements of a drawing as operators of a PDF page.

use std::collections::BTreeMap;

use pdf_writer::{Content, Name, Str};
use roxmltree::Node;

use super::font::{self, Font};
use super::state_name;

/// Size of text in pixels. Drawings leave room for 12 pixels of a narrower font.
const SIZE: f32 = 11.0;
/// Size of text that `em` refers to.
const EM: f32 = 12.0;

/// Page while elements are added to it.
pub(super) struct PdfPage<'f> {
    pub content: Content,
    /// Distinct opacities in percent; the place of each is the number of its graphics state.
    pub opacities: Vec<u32>,
    /// Glyphs of all texts, with their characters.
    pub glyphs: BTreeMap<u16, char>,
    font: &'f Font<'f>,
}

impl<'f> PdfPage<'f> {
    /// Returns an empty page.
    pub fn new(font: &'f Font<'f>) -> PdfPage<'f> {
        let (opacities, glyphs) = (Vec::new(), BTreeMap::new());
        PdfPage { content: Content::new(), opacities, glyphs, font }
    }

    /// Draws the children of an element.
    pub fn children(&mut self, node: Node) {
        node.children().filter(Node::is_element).for_each(|child| self.element(child));
    }

    fn element(&mut self, node: Node) {
        match node.tag_name().name() {
            "g" => {
                let (x, y) = moved(node);
                self.content.save_state().transform([1.0, 0.0, 0.0, 1.0, x, y]);
                self.children(node);
                self.content.restore_state();
            }
            "line" => {
                let [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map(|name| number(node, name));
                self.outline(node, &[(x1, y1), (x2, y2)], false);
            }
            "polyline" => self.outline(node, &points(node), false),
            "polygon" => self.outline(node, &points(node), true),
            "rect" => {
                let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| number(node, name));
                self.outline(node, &[(x, y), (x + w, y), (x + w, y + h), (x, y + h)], true);
            }
            "text" => self.text(node),
            _ => {}
        }
    }

    /// Draws a line or an area through points.
    fn outline(&mut self, node: Node, points: &[(f32, f32)], closed: bool) {
        let (fill, stroke) = (color(node, "fill").filter(|_| closed), color(node, "stroke"));
        let Some((first, rest)) = points.split_first() else { return };
        let opacity = node.attribute("opacity").and_then(|text| text.parse::<f32>().ok());
        let translucent = opacity.filter(|opacity| *opacity < 1.0);
        if let Some(opacity) = translucent {
            let percent = (100.0 * opacity).round() as u32;
            let known = self.opacities.iter().position(|other| *other == percent);
            let place = known.unwrap_or(self.opacities.len());
            if known.is_none() {
                self.opacities.push(percent);
            }
            self.content.save_state().set_parameters(Name(state_name(place).as_bytes()));
        }
        if let Some([r, g, b]) = fill {
            self.content.set_fill_rgb(r, g, b);
        }
        if let Some([r, g, b]) = stroke {
            let width = node.attribute("stroke-width").and_then(|text| text.parse().ok());
            self.content.set_stroke_rgb(r, g, b).set_line_width(width.unwrap_or(1.0));
        }
        self.content.move_to(first.0, first.1);
        rest.iter().for_each(|(x, y)| {
            self.content.line_to(*x, *y);
        });
        if closed {
            self.content.close_path();
        }
        match (fill, stroke) {
            (Some(_), Some(_)) => self.content.fill_nonzero_and_stroke(),
            (Some(_), None) => self.content.fill_nonzero(),
            (None, Some(_)) => self.content.stroke(),
            (None, None) => self.content.end_path(),
        };
        if translucent.is_some() {
            self.content.restore_state();
        }
    }

    fn text(&mut self, node: Node) {
        let text: String = node.text().unwrap_or_default().trim().to_owned();
        let glyphs: Vec<(u16, char)> = text.chars().map(|c| (self.font.glyph(c), c)).collect();
        let width: f32 = glyphs.iter().map(|(glyph, _)| self.font.width(*glyph)).sum();
        let width = width * SIZE / 1000.0;
        let before = match node.attribute("text-anchor") {
            Some("middle") => width / 2.0,
            Some("end") => width,
            _ => 0.0,
        };
        let (x, y) = (number(node, "x"), number(node, "y"));
        let below = below(node.attribute("dy").unwrap_or_default());
        let [r, g, b] = color(node, "fill").unwrap_or([0.0; 3]);
        // The axis of the page points down, that of letters up.
        let matrix = match node.attribute("transform").and_then(quarter_turn) {
            // Text from bottom to top.
            Some(true) => [0.0, -1.0, -1.0, 0.0, x + below, y + before],
            // Text from top to bottom.
            Some(false) => [0.0, 1.0, 1.0, 0.0, x - below, y - before],
            None => [1.0, 0.0, 0.0, -1.0, x - before, y + below],
        };
        let codes: Vec<u8> = glyphs.iter().flat_map(|(glyph, _)| glyph.to_be_bytes()).collect();
        self.content.set_fill_rgb(r, g, b).begin_text().set_font(Name(font::NAME), SIZE);
        self.content.set_text_matrix(matrix).show(Str(&codes)).end_text();
        for (glyph, character) in glyphs {
            self.glyphs.entry(glyph).or_insert(character);
        }
    }
}

fn number(node: Node, name: &str) -> f32 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// Returns the corners of a polygon or the points of a line.
fn points(node: Node) -> Vec<(f32, f32)> {
    let pair = |text: &str| {
        let (x, y) = text.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    node.attribute("points").unwrap_or_default().split_whitespace().filter_map(pair).collect()
}

/// Returns a color such as `#0072B2`; `None` for `none` and without the attribute.
fn color(node: Node, name: &str) -> Option<[f32; 3]> {
    let digits = node.attribute(name)?.strip_prefix('#')?;
    let part =
        |at: usize| Some(u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()? as f32 / 255.0);
    Some([part(0)?, part(2)?, part(4)?])
}

/// Returns the distance of a text's baseline below its place.
fn below(dy: &str) -> f32 {
    let of = |unit: &str| dy.strip_suffix(unit).and_then(|text| text.parse::<f32>().ok());
    of("em").map(|em| em * EM).or_else(|| of("ex").map(|ex| ex * EM / 2.0)).unwrap_or(0.0)
}

/// Returns the distance by which a group is moved.
fn moved(node: Node) -> (f32, f32) {
    let of = || {
        let inner = node.attribute("transform")?.strip_prefix("translate(")?.strip_suffix(')')?;
        let (x, y) = inner.split_once([' ', ','])?;
        Some((x.trim().parse().ok()?, y.trim().parse().ok()?))
    };
    of().unwrap_or((0.0, 0.0))
}

/// Returns true if a text is turned by 270 degrees, false if by 90; `None` for other angles.
fn quarter_turn(transform: &str) -> Option<bool> {
    let angle = transform.strip_prefix("rotate(")?.split(',').next()?;
    match angle.trim() {
        "270" | "-90" => Some(true),
        "90" => Some(false),
        _ => None,
    }
}
