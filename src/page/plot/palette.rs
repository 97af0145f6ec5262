//! Colors of a plot.
//!
//! Each has one hexadecimal form in the drawing; the style sheet of the page finds it by that form and replaces it by
//! another shade in dark mode.
//!
//! The colors of series are those of Okabe and Ito, which people with any common form of color blindness can
//! distinguish; yellow, too pale on paper, is replaced by a gray. Series that differ in color also differ in their
//! marks.

use plotters::style::RGBColor;

/// Color of text and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Color of grid lines.
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Colors of series, with their shades in dark mode.
pub const SERIES: [(RGBColor, &str); 8] = [
    (RGBColor(0x00, 0x72, 0xb2), "#4fa8e0"),
    (RGBColor(0xd5, 0x5e, 0x00), "#ff8a3c"),
    (RGBColor(0x00, 0x9e, 0x73), "#2fc998"),
    (RGBColor(0xcc, 0x79, 0xa7), "#e39ac3"),
    (RGBColor(0xe6, 0x9f, 0x00), "#f2b632"),
    (RGBColor(0x56, 0xb4, 0xe9), "#8fd0f5"),
    (RGBColor(0x7f, 0x7f, 0x7f), "#b0b0b0"),
    (RGBColor(0x8c, 0x51, 0x0a), "#c98f4e"),
];

/// Returns the color of a series; colors repeat after eight.
pub fn color(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()].0
}

/// Returns the corners of the mark of a series around its center: a disc, a square, a triangle and so on.
pub fn outline(series: usize) -> Vec<(i32, i32)> {
    let corners: &[(i32, i32)] = match series % 5 {
        0 => &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -5), (5, 4), (-5, 4)],
        3 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => &[(0, 5), (-5, -4), (5, -4)],
    };
    corners.to_vec()
}

/// Returns a color as a drawing writes it.
pub fn hex(color: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2)
}

/// Returns the rules of the style sheet for drawings in dark mode.
pub fn dark_rules() -> String {
    let rule = |from: RGBColor, to: &str| {
        let from = hex(from);
        format!("svg [fill=\"{from}\"]{{fill:{to}}}svg [stroke=\"{from}\"]{{stroke:{to}}}\n")
    };
    let mut rules = rule(INK, "#e6e6e6") + &rule(GRID, "#3c3c3c");
    SERIES.iter().for_each(|(from, to)| rules.push_str(&rule(*from, to)));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_color_of_a_drawing_has_a_shade_for_the_dark() {
        let rules = dark_rules();
        for (color, dark) in SERIES.into_iter().chain([(INK, "#e6e6e6"), (GRID, "#3c3c3c")]) {
            let hex = hex(color);
            assert!(rules.contains(&format!("[fill=\"{hex}\"]{{fill:{dark}}}")), "{hex}");
            assert!(rules.contains(&format!("[stroke=\"{hex}\"]{{stroke:{dark}}}")), "{hex}");
        }
        assert_eq!(color(8), color(0));
        assert_eq!(hex(RGBColor(1, 0xab, 0)), "#01AB00");
    }
}
