//! "Did you mean": the known word nearest to a typed one.

/// Upper bound on the bytes of a key or word.
const LONGEST: usize = 64;

/// Returns the nearest of `known` if it is near enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |s: &str| s.to_lowercase().replace('-', "_");
    if typed.len() > LONGEST {
        return None;
    }
    let typed = plain(typed);
    let mut best: Option<(f64, &str)> = None;
    for word in known {
        let candidate = plain(word);
        let mut score = strsim::normalized_damerau_levenshtein(&typed, &candidate);
        // `lr` for `learning_rate` is far; `prompt` for `prompt_len` is near.
        if candidate.starts_with(&typed) || typed.starts_with(&candidate) {
            score = score.max(0.7);
        }
        if score >= 0.6 && best.is_none_or(|(top, _)| score > top) {
            best = Some((score, word));
        }
    }
    best.map(|(_, word)| word)
}

/// Joins words to `a`, `b` or `c`.
pub(in crate::scenario) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|w| format!("`{w}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_slips_are_found_and_strangers_are_not() {
        let known = ["clients", "rounds", "idle_clients", "on_bad_update"];
        assert_eq!(nearest("clinets", known), Some("clients"));
        assert_eq!(nearest("idle-clients", known), Some("idle_clients"));
        assert_eq!(nearest("round", known), Some("rounds"));
        assert_eq!(nearest("temperature", known), None);
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(["a"]), "`a`");
        assert_eq!(alternatives(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
