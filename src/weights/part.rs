//! Selection of a set of weights in a file by the first word of names, such as `teacher`.

use std::collections::BTreeSet;

use super::{Listing, WeightsError};

/// Returns the tensors whose names begin with a word and a dot, and this prefix. It is removed from their names.
///
/// Without a word all tensors are returned.
///
/// # Errors
/// Returns an error if there are none.
pub(super) fn below(
    origin: &str,
    listing: Listing,
    part: Option<&str>,
) -> Result<(Listing, String), WeightsError> {
    match part {
        None => Ok((listing, String::new())),
        Some(part) => below_or(origin, listing, part, &[]),
    }
}

/// Returns the tensors whose names begin with a word and a dot, without these, and that prefix.
///
/// # Errors
/// Returns an error if there are none. It names the `keys` of the container, or otherwise the first words of names.
pub(super) fn below_or(
    origin: &str,
    listing: Listing,
    part: &str,
    keys: &[&str],
) -> Result<(Listing, String), WeightsError> {
    let prefix = format!("{part}.");
    let inside: Listing = listing
        .iter()
        .filter_map(|(name, listed)| Some((name.strip_prefix(&prefix)?.to_owned(), listed.clone())))
        .collect();
    if !inside.is_empty() {
        return Ok((inside, prefix));
    }
    let words: BTreeSet<&str> =
        listing.keys().filter_map(|name| name.split_once('.')).map(|(word, _)| word).collect();
    let words: Vec<&str> =
        if keys.is_empty() { words.into_iter().collect() } else { keys.to_vec() };
    let there: Vec<String> = words.iter().take(8).map(|word| format!("`{word}`")).collect();
    let advice = match there.is_empty() {
        true => "remove `backbone.part`: the file holds one set of weights".to_owned(),
        false => format!("set `backbone.part` to one of {}", there.join(", ")),
    };
    let (file, what) = (origin.to_owned(), format!("has no part `{part}`"));
    Err(WeightsError::Foreign { file, what, advice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Listed;

    fn listing(names: &[&str]) -> Listing {
        let listed = || Listed { shape: vec![1], kind: "F32".to_owned() };
        names.iter().map(|name| (name.to_string(), listed())).collect()
    }

    #[test]
    fn tensors_below_a_word_lose_it_and_others_are_left_out() {
        let all = listing(&["model.a", "model_ema.a", "model_ema.b.c", "x"]);
        let (inside, prefix) = below("f", all.clone(), Some("model_ema")).unwrap();
        let names: Vec<&str> = inside.keys().map(String::as_str).collect();
        assert_eq!((names, &*prefix), (vec!["a", "b.c"], "model_ema."));
        assert_eq!(below("f", all.clone(), None).unwrap(), (all, String::new()));
    }

    #[test]
    fn a_missing_part_is_refused_with_the_existing_ones() {
        let error = below_or("f", listing(&["model.a", "x"]), "ema", &["state_dict"]);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("no part `ema`") && error.ends_with("one of `state_dict`"),
            "{error}"
        );
        let error = below("f", listing(&["model.a", "x"]), Some("ema")).unwrap_err().to_string();
        assert!(error.contains("one of `model`"), "{error}");
        let error = below("f", listing(&["x"]), Some("ema")).unwrap_err().to_string();
        assert!(error.contains("remove `backbone.part`"), "{error}");
    }
}
