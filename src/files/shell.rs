//! Words of command lines that users paste into a shell.

use std::path::Path;

/// Returns a path or an option's value as one word for a POSIX shell, in quotes if it needs them.
pub fn shell_word(text: impl AsRef<Path>) -> String {
    let text = text.as_ref().display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn words_are_quoted_if_a_shell_would_read_them_otherwise() {
        for plain in ["runs/a", "clients=10,method=hgp", "über/ß.toml", "a:b@c+d%"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (text, word) in [
            ("", "''"),
            ("k 2", "'k 2'"),
            ("my run's $d", "'my run'\\''s $d'"),
            ("a|b", "'a|b'"),
            ("x(1)", "'x(1)'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
