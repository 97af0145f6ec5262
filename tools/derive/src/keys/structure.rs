//! A struct: every field is read, in order.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Fields, Result};

use super::Table;
use super::field::Key;

/// Writes `read` of a struct with named fields.
pub fn derive(input: &DeriveInput, data: &DataStruct, table: &Table) -> Result<TokenStream> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "keys are the fields of a struct with names"));
    };
    let keys = fields.named.iter().map(Key::new).collect::<Result<Vec<_>>>()?;
    let (first, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.first);
    let statements =
        first.into_iter().chain(others).map(Key::statement).collect::<Result<Vec<_>>>()?;
    let names = fields.named.iter().map(|field| &field.ident);
    let body = quote! {
        #(#statements)*
        Self { #(#names),* }
    };
    Ok(table.function(input, &body, !keys.iter().any(Key::is_required)))
}
