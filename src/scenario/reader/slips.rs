//! Corrections of common typing errors in values.

/// Returns the value in TOML if a text looks like a typing error: `.003`, `3.`, `1,000`, `True`, `yes`.
pub(in crate::scenario) fn meant(text: &str) -> Option<String> {
    let text = text.trim();
    let toml = boolean(text).map(str::to_owned).or_else(|| grouped(text)).or_else(|| pointed(text));
    toml.filter(|toml| toml != text)
}

/// Returns the TOML word of `True` and similar words.
fn boolean(text: &str) -> Option<&'static str> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        _ => None,
    }
}

/// Returns `1,000` without its commas.
fn grouped(text: &str) -> Option<String> {
    let mut groups = text.split(',');
    let digits = |group: &str| group.chars().all(|c| c.is_ascii_digit());
    let first = groups.next().filter(|group| (1..=3).contains(&group.len()) && digits(group))?;
    let rest: Vec<&str> = groups.collect();
    let whole = !rest.is_empty() && rest.iter().all(|group| group.len() == 3 && digits(group));
    whole.then(|| format!("{first}{}", rest.concat()))
}

/// Returns `.003` and `3.` with digits on both sides of the point.
fn pointed(text: &str) -> Option<String> {
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    // Neither `inf` nor `nan`.
    let begins = number.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    number.parse::<f64>().ok().filter(|_| begins)?;
    let (mantissa, exponent) =
        number.split_once(['e', 'E']).map_or((number, None), |(m, e)| (m, Some(e)));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeroed = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    // TOML has no leading zeros.
    let whole = zeroed(whole.trim_start_matches('0'));
    let exponent = exponent.map(|e| format!("e{e}")).unwrap_or_default();
    let point = match mantissa.contains('.') {
        true => format!(".{}", zeroed(part)),
        false => String::new(),
    };
    Some(format!("{sign}{whole}{point}{exponent}"))
}

/// Returns `{name=stsa}` with its words in quotes, as before a shell removed them.
pub(in crate::scenario) fn requoted(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-+./".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if !is_word(first) {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, behind) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let is_key = behind.trim_start().starts_with('=');
        let is_value =
            !first.is_ascii_alphabetic() || ["true", "false", "inf", "nan"].contains(&word);
        match is_key || is_value {
            true => out.push_str(word),
            false => out.push_str(&format!("\"{word}\"")),
        }
        rest = behind;
    }
    out
}

/// Returns the format of a file that is not TOML, by its name and its first line.
pub(in crate::scenario) fn other_format(name: &str, text: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let first = first.unwrap_or_default();
    let key = first.split_once(": ").or(first.strip_suffix(':').map(|key| (key, "")));
    let plain = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if lower.ends_with(".json") || first.starts_with('{') {
        Some("JSON")
    } else if [".yaml", ".yml"].iter().any(|end| lower.ends_with(end))
        || first == "---"
        || key.is_some_and(|(key, _)| plain(key))
    {
        Some("YAML")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_written_as_toml_has_them() {
        for (typed, toml) in [
            (".003", "0.003"),
            ("3.", "3.0"),
            ("-.5", "-0.5"),
            ("1,000", "1000"),
            ("12,345,678", "12345678"),
            ("True", "true"),
            ("no", "false"),
            ("007", "7"),
            ("1.e-3", "1.0e-3"),
        ] {
            assert_eq!(meant(typed).as_deref(), Some(toml), "{typed}");
            assert!(toml::de::DeValue::parse(toml).is_ok(), "{toml}");
        }
        for word in ["hgp", "5", "true", "1,00", "1,2", "", "inf", "a.5", "1.2.3"] {
            assert_eq!(meant(word), None, "{word}");
        }
    }

    #[test]
    fn quotes_that_a_shell_took_come_back() {
        let of = requoted;
        assert_eq!(of("{name=fedavg}"), "{name=\"fedavg\"}");
        assert_eq!(of("{name=stsa,width=256,a=-1e-3}"), "{name=\"stsa\",width=256,a=-1e-3}");
        assert_eq!(
            of("{prompt=false, on=[head, prompt]}"),
            "{prompt=false, on=[\"head\", \"prompt\"]}"
        );
        assert_eq!(of("{first={name=none}}"), "{first={name=\"none\"}}");
    }

    #[test]
    fn other_formats_are_known_by_name_or_first_line() {
        assert_eq!(other_format("a.json", ""), Some("JSON"));
        assert_eq!(other_format("a.toml", " {\"schema\": 1}"), Some("JSON"));
        assert_eq!(other_format("a.toml", "# x\nschema: 1\n"), Some("YAML"));
        assert_eq!(other_format("a.toml", "data:\n  source: digits"), Some("YAML"));
        assert_eq!(other_format("a.toml", "schema = 2\nname = \"a: b\""), None);
        assert_eq!(other_format("a.toml", "[data"), None);
    }
}
