//! Spelling of labels: cells that stand for a missing value, and integers in any notation.

use std::cmp::Ordering;
use std::fmt;

/// Cells that stand for a missing value, as in pandas.
const MISSING: &[&str] = &[
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Largest exponent, up or down, with which a number can be a label.
const MAX_SHIFT: i64 = 400;

/// Returns true if a cell, stripped of spaces, stands for a missing value.
pub(super) fn is_missing(cell: &str) -> bool {
    MISSING.contains(&cell)
}

/// Kind of a cell that has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Integer, and the number of padding zeros before its first digit.
    Whole(Whole, usize),
    /// Number that is not whole, or infinite.
    Fraction,
    /// Anything else.
    Word,
}

/// Integer of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    negative: bool,
    /// Decimal digits without leading zeros.
    digits: String,
}

impl Ord for Whole {
    fn cmp(&self, other: &Whole) -> Ordering {
        let by_size =
            || (self.digits.len(), &self.digits).cmp(&(other.digits.len(), &other.digits));
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => by_size(),
            (true, true) => by_size().reverse(),
        }
    }
}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Whole) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negative { "-" } else { "" }, self.digits)
    }
}

impl Spelling {
    /// Classifies a cell. `7`, `+7`, `007`, `7.0`, `7.`, `7e0` and `70e-1` are all the integer 7.
    pub fn of(text: &str) -> Spelling {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if ["inf", "infinity"].contains(&unsigned.to_ascii_lowercase().as_str()) {
            return Spelling::Fraction;
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(before) || !is_digits(behind) || (before.is_empty() && behind.is_empty()) {
            return Spelling::Word;
        }
        let shift = match exponent {
            None => 0,
            Some(exponent) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !is_digits(digits) {
                    return Spelling::Word;
                }
                exponent.parse().unwrap_or(i64::MAX)
            }
        };
        let zeros = before.bytes().take_while(|digit| *digit == b'0').count();
        let padding = zeros.min(before.len().saturating_sub(1));
        let all = format!("{before}{behind}");
        if all.bytes().all(|digit| digit == b'0') {
            let zero = Whole { negative: false, digits: "0".to_owned() };
            return Spelling::Whole(zero, padding);
        }
        if shift.saturating_abs() > MAX_SHIFT {
            return Spelling::Fraction;
        }
        let point = usize::try_from(before.len() as i64 + shift).unwrap_or(0);
        let (whole, fraction) = match all.get(point..) {
            Some(fraction) => (all[..point].to_owned(), fraction),
            None => (format!("{all}{}", "0".repeat(point - all.len())), ""),
        };
        let digits = whole.trim_start_matches('0');
        if before.len() as i64 + shift < 0 || fraction.bytes().any(|digit| digit != b'0') {
            return Spelling::Fraction;
        }
        let digits = digits.to_owned();
        Spelling::Whole(Whole { negative: text.starts_with('-'), digits }, padding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Option<String> {
        match Spelling::of(text) {
            Spelling::Whole(whole, _) => Some(whole.to_string()),
            Spelling::Fraction | Spelling::Word => None,
        }
    }

    #[test]
    fn whole_numbers_are_read_in_any_spelling() {
        let spellings = [
            ("7", "7"),
            ("+7", "7"),
            ("-7", "-7"),
            ("007", "7"),
            ("7.0", "7"),
            ("7.", "7"),
            ("7.000", "7"),
            ("7e0", "7"),
            ("70e-1", "7"),
            ("0.7E1", "7"),
            ("1e+03", "1000"),
            ("-0", "0"),
            ("0.0", "0"),
            (".0", "0"),
            ("0e999", "0"),
            ("99999999999999999999", "99999999999999999999"),
            (
                "12345678901234567890123456789012345678901234567890.0",
                "12345678901234567890123456789012345678901234567890",
            ),
        ];
        for (text, value) in spellings {
            assert_eq!(whole(text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn fractions_are_numbers_and_words_are_not() {
        for text in ["0.5", "-1.5", "1e-1", "7.01", "inf", "-Infinity", "1e999", "1e-999", "5e-2"] {
            assert_eq!(Spelling::of(text), Spelling::Fraction, "{text}");
        }
        for text in [
            "cat", "1a", "a1", "-", "+", ".", "e5", "1e", "1e+", "1,5", "1_000", "0x10", "1.2.3",
            "٣",
        ] {
            assert_eq!(Spelling::of(text), Spelling::Word, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_ordered_by_value() {
        let texts = ["10", "-2", "9", "0", "-10", "123456789012345678901234567890"];
        let mut found: Vec<Whole> = texts
            .iter()
            .map(|text| match Spelling::of(text) {
                Spelling::Whole(whole, _) => whole,
                other => panic!("{text}: {other:?}"),
            })
            .collect();
        found.sort();
        let found: Vec<String> = found.iter().map(Whole::to_string).collect();
        assert_eq!(found, ["-10", "-2", "0", "9", "10", "123456789012345678901234567890"]);
    }

    #[test]
    fn cells_without_a_value_are_known_and_names_are_kept() {
        for cell in ["", "NaN", "nan", "null", "NULL", "None", "NA", "N/A", "<NA>"] {
            assert!(is_missing(cell), "{cell}");
        }
        for cell in ["0", "none", "Nan", "Na", "no", "unknown", "-"] {
            assert!(!is_missing(cell), "{cell}");
        }
    }
}
