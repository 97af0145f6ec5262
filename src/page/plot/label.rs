//! Number formats of axes and tables.

/// Quantity that a number measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Plain number.
    Number,
    /// Whole number.
    Count,
    /// Fraction, written in percent without the sign.
    Percent,
    /// Difference of fractions, written in percentage points.
    Points,
    /// Bytes, in powers of a thousand.
    Bytes,
    /// Seconds.
    Seconds,
}

impl Label {
    /// Formats a number as briefly as possible.
    pub fn write(self, value: f64) -> String {
        match self {
            Label::Number | Label::Count | Label::Seconds => plain(value),
            Label::Percent | Label::Points => plain(100.0 * value),
            Label::Bytes => bytes(value),
        }
    }

    /// Formats a number for a table, with the digits that a comparison needs.
    pub fn exact(self, value: f64) -> String {
        match self {
            Label::Percent | Label::Points => format!("{:.2}", 100.0 * value),
            Label::Seconds => format!("{value:.3}"),
            Label::Number if value.fract() == 0.0 => format!("{value}"),
            Label::Number | Label::Count => plain(value),
            Label::Bytes => plain(value.round()),
        }
    }

    /// Returns the unit that a title has in parentheses.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Label::Number | Label::Count | Label::Bytes => None,
            Label::Percent => Some("%"),
            Label::Points => Some("points"),
            Label::Seconds => Some("s"),
        }
    }

    /// Returns a title with its unit.
    pub fn titled(self, title: &str) -> String {
        self.unit().map_or_else(|| title.to_owned(), |unit| format!("{title} ({unit})"))
    }
}

/// Formats four significant digits, without trailing zeros.
fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats bytes such as `200 kB` or `1.5 MB`; a kilobyte is a thousand bytes.
fn bytes(value: f64) -> String {
    let (unit, size) = match value.abs() {
        size if size >= 1e9 => ("GB", 1e9),
        size if size >= 1e6 => ("MB", 1e6),
        size if size >= 1e3 => ("kB", 1e3),
        _ => ("B", 1.0),
    };
    if value == 0.0 { "0".into() } else { format!("{} {unit}", plain(value / size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_bytes_have_units_of_a_thousand() {
        let of = |label: Label, value| label.write(value);
        assert_eq!(of(Label::Number, 0.1 + 0.2), "0.3");
        assert_eq!(of(Label::Number, -12.5), "-12.5");
        assert_eq!(of(Label::Number, 12_345.0), "12345");
        assert_eq!(of(Label::Percent, 0.905), "90.5");
        assert_eq!(of(Label::Bytes, 1_500_000.0), "1.5 MB");
        assert_eq!(of(Label::Bytes, 999.0), "999 B");
        assert_eq!(of(Label::Bytes, 2e9), "2 GB");
        assert_eq!(Label::Percent.exact(0.44042947), "44.04");
        assert_eq!(Label::Percent.titled("FAA"), "FAA (%)");
        assert_eq!(Label::Points.titled("forgetting"), "forgetting (points)");
        assert_eq!(of(Label::Points, -0.0312), "-3.12");
    }
}
