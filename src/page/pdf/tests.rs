use std::io::Read;

use super::*;

const SVG: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"200\"><title>A &amp; \u{b2}</title>\
    <rect width=\"400\" height=\"200\" fill=\"#ffffff\"/>\
    <line stroke=\"#DDDDDD\" x1=\"1\" y1=\"2\" x2=\"3\" y2=\"4\"/>\
    <polygon opacity=\"0.18\" fill=\"#0072B2\" points=\"0,0 5,0 5,7 \"/>\
    <polyline fill=\"none\" stroke=\"#0072B2\" stroke-width=\"2\" points=\"8,9 10,11\"/>\
    <g transform=\"translate(20 30)\"><text x=\"5\" y=\"6\" fill=\"#222222\">C\u{b2}Prompt</text></g>\
    <text x=\"10\" y=\"137\" dy=\"0.76em\" text-anchor=\"middle\" transform=\"rotate(270, 10, 137)\">up</text>\
    <circle r=\"3\"/></svg>";

/// Returns the decompressed streams of a file.
fn streams(file: &[u8]) -> Vec<String> {
    let find = |from: usize, word: &[u8]| {
        file[from..].windows(word.len()).position(|part| part == word).map(|at| from + at)
    };
    let mut streams = Vec::new();
    let mut from = 0;
    while let Some(begin) = find(from, b"\nstream\n") {
        let end = find(begin, b"\nendstream").unwrap();
        let mut bytes = Vec::new();
        flate2::read::ZlibDecoder::new(&file[begin + 8..end]).read_to_end(&mut bytes).unwrap();
        streams.push(String::from_utf8_lossy(&bytes).into_owned());
        from = end;
    }
    streams
}

#[test]
fn a_drawing_is_one_page_of_its_size_with_its_font() {
    let file = pdf(SVG).unwrap();
    assert_eq!(pdf(SVG), Some(file.clone()), "the same drawing gives the same bytes");
    let text = String::from_utf8_lossy(&file);
    assert!(text.starts_with("%PDF-1.7") && text.trim_end().ends_with("%%EOF"));
    // 400 by 200 pixels are 300 by 150 points.
    for part in ["/MediaBox [0 0 300 150]", "/FontFile2", "/ToUnicode", "/ca 0.18", "/Count 1"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("CreationDate"));
    let streams = streams(&file);
    assert!(streams.iter().any(|stream| stream.as_bytes() == font_bytes()), "the font is whole");
}

fn font_bytes() -> Vec<u8> {
    String::from_utf8_lossy(include_bytes!("dejavu-sans.ttf")).into_owned().into_bytes()
}

#[test]
fn elements_stand_where_the_drawing_has_them() {
    let content = streams(&pdf(SVG).unwrap()).into_iter().find(|s| s.starts_with("0.75 ")).unwrap();
    let lines: Vec<&str> = content.lines().collect();
    // The page begins at the bottom.
    assert_eq!(lines[0], "0.75 0 0 -0.75 0 150 cm");
    let place = |line: &str| lines.iter().position(|other| *other == line);
    let at = |line: &str| place(line).unwrap_or_else(|| panic!("{line}: {content}"));
    assert_eq!(at("3 4 l"), at("1 2 m") + 1);
    assert_eq!(at("/G0 gs"), at("q") + 1);
    assert_eq!(at("8 9 m") + 1, at("10 11 l"));
    assert_eq!(at("2 w") + 1, at("8 9 m"));
    assert!(at("1 0 0 1 20 30 cm") < at("1 0 0 -1 5 6 Tm"));
    // A turned text begins half its width below its place and stands 0.76 of 12 pixels to the right.
    let turned = lines.iter().find(|line| line.starts_with("0 -1 -1 0 ")).unwrap();
    let numbers: Vec<f32> = turned.split(' ').filter_map(|word| word.parse().ok()).collect();
    let font = Font::embedded();
    let half = "up".chars().map(|c| font.width(font.glyph(c))).sum::<f32>() * 11.0 / 2000.0;
    assert!(
        (numbers[4] - 19.12).abs() < 1e-3 && (numbers[5] - 137.0 - half).abs() < 1e-3,
        "{turned}"
    );
}

#[test]
fn characters_have_glyphs_and_can_be_copied() {
    let font = Font::embedded();
    for character in "aZ0%±²×τβéß…→≤−".chars() {
        assert_ne!(font.glyph(character), 0, "{character}");
    }
    assert_eq!(font.glyph('\u{4e2d}'), 0);
    assert!((font.width(font.glyph('0')) - 636.0).abs() < 1.0);
    let streams = streams(&pdf(SVG).unwrap());
    let table = streams.iter().find(|stream| stream.contains("beginbfchar")).unwrap();
    assert!(table.contains(&format!("<{:04X}> <00B2>", font.glyph('\u{b2}'))), "{table}");
}

#[test]
fn other_texts_have_no_pages() {
    assert_eq!(pdf("no drawing"), None);
    assert_eq!(pdf("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), None);
}
