//! Structs, whose fields are read in order.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Fields, Result};

use super::Table;
use super::field::{Key, keys, read};

/// Returns `read` of a struct with named fields.
pub fn derive(input: &DeriveInput, data: &DataStruct, table: &Table) -> Result<TokenStream> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(&input.ident, "keys are the fields of a struct with names"));
    };
    let keys = keys(fields)?;
    let body = read(&keys, &quote!(Self))?;
    Ok(table.function(input, &body, !keys.iter().any(Key::is_required)))
}
