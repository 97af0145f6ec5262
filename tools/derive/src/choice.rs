//! Derive `#[derive(Choice)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Result};

/// Returns the implementation that makes an enum of words the type of a key.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let plain = match &input.data {
        Data::Enum(words) => words.variants.iter().all(|variant| variant.fields.is_empty()),
        _ => false,
    };
    if !plain {
        return Err(Error::new_spanned(
            &input.ident,
            "words are the variants of an enum without fields",
        ));
    }
    let name = &input.ident;
    Ok(quote!(impl crate::scenario::reader::Choice for #name {}))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn words_are_variants_without_fields() {
        let words = parse_quote!(
            enum Cut {
                Even,
                Last,
            }
        );
        let written = derive(&words).unwrap().to_string();
        assert_eq!(written, quote!(impl crate::scenario::reader::Choice for Cut {}).to_string());
        let fields = parse_quote!(
            enum Cut {
                Even,
                At(u32),
            }
        );
        assert!(derive(&fields).unwrap_err().to_string().contains("without fields"));
        assert!(
            derive(&parse_quote!(
                struct Cut;
            ))
            .is_err()
        );
    }
}
