//! What people are told beside results: lines on stderr.
//!
//! Nobody may be there to read them: a full disk under `2> log`, a terminal that is gone. That
//! never ends or changes a run, so lines that cannot be written are forgotten.

use std::borrow::Cow;
use std::io::Write;

/// Tells a line on stderr.
pub fn print_status(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(line));
}

/// Shows a text on stderr that may have colors of its own.
pub fn print_styled(text: &str) {
    let _ = std::io::stderr().lock().write_all(without_os_codes(text).as_bytes());
}

/// Text without what would move a cursor or change a terminal: names and paths come from files of others.
pub fn plain(text: &str) -> Cow<'_, str> {
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.contains(odd) {
        true => Cow::Owned(without_os_codes(text).replace(odd, "\u{fffd}")),
        false => without_os_codes(text),
    }
}

/// Text without the numbers that systems give their errors: the words before them say it.
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
