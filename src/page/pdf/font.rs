//! Font of PDF figures: DejaVu Sans with Latin and Greek letters and a few signs, which is written into each file.
//!
//! `dejavu-sans.ttf` is a part of DejaVu Sans 2.37 (its license is next to it), made by
//! `pyftsubset DejaVuSans.ttf --unicodes=U+20-7E,U+A0-17F,U+370-3FF,U+1E00-1EFF,U+2010-2026,U+2030-203A,U+2070-209C,`
//! `U+20AC,U+2190-2193,U+2202-2265,U+FFFD --layout-features='' --no-hinting --desubroutinize`.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use ttf_parser::{Face, GlyphId};

use super::deflated;

/// Name of the font in the resources of a page.
pub(super) const NAME: &[u8] = b"F0";
/// Name of the font in a file; six letters mark a part of a font.
const BASE: &[u8] = b"FEDCST+DejaVuSans";
const BYTES: &[u8] = include_bytes!("dejavu-sans.ttf");

/// Font with its measures.
pub(super) struct Font<'a> {
    face: Face<'a>,
}

impl Font<'static> {
    /// Returns the font in the program.
    pub fn embedded() -> Font<'static> {
        Font { face: Face::parse(BYTES, 0).expect("the font in the program is intact") }
    }
}

impl Font<'_> {
    /// Returns the glyph of a character; an empty box for one that the font lacks.
    pub fn glyph(&self, character: char) -> u16 {
        self.face.glyph_index(character).unwrap_or_default().0
    }

    /// Returns the width of a glyph in thousandths of the font's size.
    pub fn width(&self, glyph: u16) -> f32 {
        self.scaled(self.face.glyph_hor_advance(GlyphId(glyph)).unwrap_or(0).into())
    }

    fn scaled(&self, units: f32) -> f32 {
        units * 1000.0 / f32::from(self.face.units_per_em())
    }

    /// Writes the font, with widths and characters of used glyphs, as `id` and the four objects after it.
    pub fn write(&self, pdf: &mut Pdf, id: Ref, glyphs: &BTreeMap<u16, char>) {
        let [glyph_font, descriptor, characters, file] =
            [1, 2, 3, 4].map(|place| Ref::new(id.get() + place));
        pdf.type0_font(id)
            .base_font(Name(BASE))
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(glyph_font)
            .to_unicode(characters);

        let system =
            SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
        let mut font = pdf.cid_font(glyph_font);
        font.subtype(CidFontType::Type2).base_font(Name(BASE)).system_info(system);
        font.font_descriptor(descriptor).default_width(self.width(0));
        font.cid_to_gid_map_predefined(Name(b"Identity"));
        let mut widths = font.widths();
        for glyph in glyphs.keys() {
            widths.consecutive(*glyph, [self.width(*glyph)]);
        }
        widths.finish();
        font.finish();

        let bounds = self.face.global_bounding_box();
        let [left, bottom, right, top] = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max]
            .map(|units| self.scaled(units.into()));
        pdf.font_descriptor(descriptor)
            .name(Name(BASE))
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(left, bottom, right, top))
            .italic_angle(0.0)
            .ascent(self.scaled(self.face.ascender().into()))
            .descent(self.scaled(self.face.descender().into()))
            .cap_height(self.scaled(self.face.capital_height().unwrap_or(0).into()))
            .stem_v(80.0)
            .font_file2(file);

        let system = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"UCS"), supplement: 0 };
        let mut texts = UnicodeCmap::new(Name(b"Custom"), system);
        glyphs.iter().for_each(|(glyph, character)| texts.pair(*glyph, *character));
        pdf.stream(characters, &deflated(&texts.finish())).filter(Filter::FlateDecode);

        let mut stream_of = pdf.stream(file, BYTES_DEFLATED.get_or_init(|| deflated(BYTES)));
        stream_of.filter(Filter::FlateDecode);
        stream_of.pair(Name(b"Length1"), BYTES.len() as i32);
    }
}

/// Font file as a stream has it.
static BYTES_DEFLATED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
