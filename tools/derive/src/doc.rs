//! Conversion of doc comments to the texts of lists.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the first paragraph of the documentation in one line, without the capital and the period of a sentence.
/// Names (`CLS`, `FedAvg`) keep their capitals; the result is empty without documentation.
pub fn meaning(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(line).collect();
    let paragraph = lines.iter().map(|line| line.trim()).skip_while(|line| line.is_empty());
    let text = paragraph.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let text = match text.ends_with("..") {
        true => &text[..],
        false => text.strip_suffix('.').unwrap_or(&text),
    };
    uncapitalized(text)
}

fn line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
            Some(text.value())
        }
        _ => None,
    }
}

fn uncapitalized(text: &str) -> String {
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if word.chars().skip(1).any(|c| !c.is_lowercase()) {
        return text.to_owned();
    }
    text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use syn::{ItemStruct, parse_quote};

    use super::*;

    #[test]
    fn meaning_is_the_first_paragraph_of_one_line() {
        let item: ItemStruct = parse_quote! {
            /// Time at which
            /// a round opened.
            ///
            /// More about it.
            #[derive(Debug)]
            struct Row;
        };
        assert_eq!(meaning(&item.attrs), "time at which a round opened");
    }

    #[test]
    fn names_and_ellipses_stay() {
        let of = |text: &str| meaning(&[parse_quote!(#[doc = #text])]);
        assert_eq!(of(" CLS alone."), "CLS alone");
        assert_eq!(of(" FedHAF's rule."), "FedHAF's rule");
        assert_eq!(of(" Crashed, lost, ..."), "crashed, lost, ...");
        assert_eq!(of(" A class; `seed.run` in a file."), "a class; `seed.run` in a file");
        assert_eq!(meaning(&[]), "");
    }
}
