//! Derives for what a struct says once and the program needs in several places.
//!
//! * [`Columns`]: the columns of a table, from the fields of its row.
//!
//! Every derive lies in a file of its own, as a function from a parsed type to code, so that tests read what it writes.
//! The code names items of fedcast by their paths in the crate.

mod attributes;
mod columns;
mod doc;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Lists the columns of a table: names and types of the fields, in their order. The first paragraph of a field's
/// documentation is the meaning of its column.
///
/// The unit follows from the name (`…_s`, `…_mb_per_s`, `bytes_…`), unless `#[column(unit = "share")]` says another.
/// `#[column(as_in = ROUND)]` takes unit and meaning of a column that several tables have.
#[proc_macro_derive(Columns, attributes(column))]
pub fn derive_columns(input: TokenStream) -> TokenStream {
    written(columns::derive(&parse_macro_input!(input)))
}

fn written(code: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    code.unwrap_or_else(syn::Error::into_compile_error).into()
}
