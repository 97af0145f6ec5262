//! Patterns of tensor names: `*` is any text; in rules of families `{}` is a number.

/// Returns true if a name matches a pattern, in which every `*` stands for any text, possibly empty.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the number in place of a pattern's `{}` in a name; `None` for names that do not match.
pub(super) fn number(pattern: &str, name: &str) -> Option<usize> {
    let (before, behind) = pattern.split_once("{}")?;
    let digits = name.strip_prefix(before)?.strip_suffix(behind)?;
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten()
}

/// Returns a pattern with a number in place of `{}`.
pub(super) fn filled(pattern: &str, number: usize) -> String {
    pattern.replacen("{}", &number.to_string(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_nothing_else_is() {
        for (pattern, name) in [
            ("head.*", "head.weight"),
            ("head.*", "head."),
            ("*", ""),
            ("blocks.*.ls1.gamma", "blocks.11.ls1.gamma"),
            ("*_tracked", "bn1.num_batches_tracked"),
            ("a*b*a", "aba"),
            ("head", "head"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("head.*", "heads.weight"),
            ("head", "head.weight"),
            ("blocks.*.ls1.gamma", "blocks.1.ls2.gamma"),
            ("a*a", "a"),
            ("a*b*a", "aa"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn numbers_are_read_where_they_stand() {
        assert_eq!(number("blocks.{}.norm1.bias", "blocks.11.norm1.bias"), Some(11));
        for name in
            ["blocks.x.norm1.bias", "blocks..norm1.bias", "blocks.01.norm1.bias", "blocks.1.norm1"]
        {
            assert_eq!(number("blocks.{}.norm1.bias", name), None, "{name}");
        }
        assert_eq!(filled("blocks.{}.norm1", 3), "blocks.3.norm1");
    }
}
