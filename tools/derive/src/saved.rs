//! Derive `#[derive(Saved)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Index, Member, Result};

/// Returns the implementation that saves and loads a struct field by field.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "saved fields are those of a struct"));
    };
    let member = |(index, field): (usize, &syn::Field)| match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(index)),
    };
    let members: Vec<Member> = data.fields.iter().enumerate().map(member).collect();
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics crate::wire::SavedField for #name #arguments #bounds {
            fn save_field(&self, into: &mut crate::wire::Saving) {
                #(crate::wire::SavedField::save_field(&self.#members, into);)*
            }

            fn load_field(from: &mut crate::wire::Loading<'_>) -> Result<Self, crate::wire::WireError> {
                Ok(Self { #(#members: crate::wire::SavedField::load_field(from)?),* })
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn fields_are_saved_and_loaded_in_order() {
        let state = parse_quote! {
            struct State {
                seen: u64,
                best: f64,
            }
        };
        let expected = quote! {
            impl crate::wire::SavedField for State {
                fn save_field(&self, into: &mut crate::wire::Saving) {
                    crate::wire::SavedField::save_field(&self.seen, into);
                    crate::wire::SavedField::save_field(&self.best, into);
                }

                fn load_field(from: &mut crate::wire::Loading<'_>) -> Result<Self, crate::wire::WireError> {
                    Ok(Self {
                        seen: crate::wire::SavedField::load_field(from)?,
                        best: crate::wire::SavedField::load_field(from)?
                    })
                }
            }
        };
        assert_eq!(derive(&state).unwrap().to_string(), expected.to_string());
    }

    #[test]
    fn fields_without_names_are_numbered() {
        let state = parse_quote!(
            struct LatestTask(Option<TaskId>);
        );
        let written = derive(&state).unwrap().to_string();
        assert!(written.contains("(& self . 0 , into)"), "{written}");
        assert!(written.contains("Self { 0 : crate"), "{written}");
        let rule = parse_quote!(
            enum Rule {
                Even,
            }
        );
        assert!(derive(&rule).unwrap_err().to_string().contains("of a struct"));
    }
}
