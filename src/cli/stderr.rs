//! Messages on stderr: progress, notes, warnings and errors.
//!
//! Lines that cannot be written (a full disk under `2> log`, a closed terminal) are dropped; they never end or
//! change a run.

use std::borrow::Cow;
use std::io::Write;

/// Prints a line on stderr.
pub fn print_status(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(line));
}

/// Prints a text on stderr that may contain colors.
pub fn print_styled(text: &str) {
    let _ = std::io::stderr().lock().write_all(without_os_codes(text).as_bytes());
}

/// Replaces control characters other than newlines and tabs, since names and paths may contain any.
pub fn plain(text: &str) -> Cow<'_, str> {
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.contains(odd) {
        true => Cow::Owned(without_os_codes(text).replace(odd, "\u{fffd}")),
        false => without_os_codes(text),
    }
}

/// Removes the system's error numbers, such as ` (os error 2)`.
pub fn without_os_codes(text: &str) -> Cow<'_, str> {
    const NUMBER: &str = " (os error ";
    if !text.contains(NUMBER) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(NUMBER);
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.chars().all(|c| c.is_ascii_digit()) => {
                words.push_str(rest);
            }
            _ => {
                words.push_str(NUMBER);
                words.push_str(part);
            }
        }
    }
    Cow::Owned(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_harmless_and_lines_stay() {
        assert_eq!(plain("a\tb\nc ü"), "a\tb\nc ü");
        assert_eq!(
            plain("a: not found (os error 2)\nb (os error 13): c (os error x)"),
            "a: not found\nb: c (os error x)"
        );
        assert_eq!(
            plain("\u{1b}]0;title\u{7}\u{9b}2J\r"),
            "\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}"
        );
    }
}
