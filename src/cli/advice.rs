//! Short forms of command lines, and advice for command lines that the parser rejects.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::scenario::Scenario;

/// Expands short forms: `help columns` to `columns`, and `methods NAME` to `methods show NAME`.
pub(super) fn understood(mut arguments: Vec<String>) -> Vec<String> {
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        ["help", page @ ("columns" | "keys")] => {
            let page = page.to_owned();
            arguments.splice(1..3, [page]);
        }
        ["methods", name, ..] if !name.starts_with('-') && !["show", "help"].contains(&name) => {
            arguments.insert(2, "show".to_owned());
        }
        _ => {}
    }
    arguments
}

/// Commands and flags with their new names.
const RENAMED: [(&str, &str); 4] = [
    ("direct", "single-task"),
    ("--direct", "--single-task"),
    ("--against", "--baseline"),
    ("--sampled", "--cohort-size"),
];

/// Returns advice on an unknown command or argument, if there is any.
pub(super) fn advice(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let unknown = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(unknown) else { return None };
    let name = word.split('=').next().unwrap_or_default();
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        return Some(format!("`{name}` is called `{new}` now"));
    }
    if name == "--json" {
        return Some("JSON is printed with `--format json`".to_owned());
    }
    if name == "--mixed" {
        return Some("`--mixed` is gone: all machines compute the same numbers".to_owned());
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        return None;
    }
    if word.contains('=') && !word.starts_with("--") || word.parse::<f64>().is_ok() {
        return Some(
            "write --set KEY=VALUE as one word, in single quotes if it contains braces: \
             --set 'method={name=\"stsa\", width=256}'"
                .to_owned(),
        );
    }
    let key = word.strip_prefix("--")?.split('=').next()?.replace('-', "_");
    let typed = arguments.iter().position(|argument| argument == word);
    let next =
        typed.and_then(|place| arguments.get(place + 1)).filter(|next| !next.starts_with('-'));
    let value = word.split_once('=').map(|(_, value)| value).or(next.map(String::as_str));
    let value = value.unwrap_or("VALUE");
    if key == "method" {
        return Some(format!(
            "keys of a scenario are set with --set 'method={{name=\"{value}\"}}'"
        ));
    }
    let keys = Scenario::keys();
    let path = keys.iter().find(|doc| doc.key.rsplit('.').next() == Some(&key))?;
    Some(format!("keys of a scenario are set with --set {}={value}", path.key))
}

/// Returns true if the arguments request JSON for results, and so for errors.
pub(super) fn wants_json(arguments: &[String]) -> bool {
    let pair = arguments.windows(2).any(|pair| pair == ["--format", "json"]);
    pair || arguments.iter().any(|argument| argument == "--format=json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn short_forms_are_understood_and_others_stay() {
        for (typed, meant) in [
            ("fedcast methods hgp", "fedcast methods show hgp"),
            ("fedcast methods hgp --format json", "fedcast methods show hgp --format json"),
            ("fedcast help columns", "fedcast columns"),
            ("fedcast methods show hgp", "fedcast methods show hgp"),
            ("fedcast methods --format json", "fedcast methods --format json"),
            ("fedcast methods", "fedcast methods"),
            ("fedcast help run", "fedcast help run"),
            ("fedcast", "fedcast"),
        ] {
            assert_eq!(understood(words(typed)), words(meant));
        }
    }

    #[test]
    fn json_is_wanted_in_either_form() {
        assert!(wants_json(&words("fedcast run a.toml --format json")));
        assert!(wants_json(&words("fedcast run a.toml --format=json")));
        assert!(!wants_json(&words("fedcast run json --format human")));
    }
}
