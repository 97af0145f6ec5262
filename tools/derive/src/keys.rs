//! Derive `#[derive(Keys)]`: `fn read` of a table, from a struct whose fields are its keys or an enum chosen by one
//! key.

mod enumeration;
mod field;
mod structure;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Error, Expr, FnArg, Ident, LitStr, Result, Token, parenthesized};

use crate::attributes;

/// Returns `fn read` and, if no key is required, `Default`.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let about = Table::read(input)?;
    match &input.data {
        Data::Struct(fields) => structure::derive(input, fields, &about),
        Data::Enum(variants) => enumeration::derive(input, variants, &about),
        Data::Union(_) => Err(Error::new_spanned(&input.ident, "a union has no keys")),
    }
}

/// Entries of `#[keys(...)]`.
#[derive(Default)]
struct Table {
    /// Arguments of `read` after the table.
    given: Punctuated<FnArg, Token![,]>,
    /// Values of these arguments for `Default`.
    default_given: Punctuated<Expr, Token![,]>,
    /// Name of the function, `read` if not given.
    function: Option<Ident>,
    /// Check of contradictions; it sees `section`, `table` and the arguments.
    check: Option<Expr>,
    /// Key that selects a variant.
    tag: Option<LitStr>,
    /// Variant if the key is not written, or an expression for its word.
    default: Option<Expr>,
    /// Variant that an error suggests; the key is then required.
    example: Option<Ident>,
    /// Value of an enum whose key is invalid; no other key is then checked.
    unreadable: Option<Expr>,
    /// Further keys that mean nothing with some variants.
    others: Punctuated<LitStr, Token![,]>,
    /// True if a key is required although no field says so. There is then no `Default`.
    required: bool,
    /// Source of the default.
    source: Option<Expr>,
}

impl Table {
    fn read(input: &DeriveInput) -> Result<Table> {
        let mut table = Table::default();
        let known = [
            "given",
            "default_given",
            "function",
            "check",
            "tag",
            "default",
            "example",
            "unreadable",
            "others",
            "source",
            "required",
        ];
        attributes::read(&input.attrs, "keys", &known, |entry, meta| {
            match entry {
                "given" => {
                    let content;
                    parenthesized!(content in meta.input);
                    table.given = Punctuated::parse_terminated(&content)?;
                }
                "default_given" => {
                    let content;
                    parenthesized!(content in meta.input);
                    table.default_given = Punctuated::parse_terminated(&content)?;
                }
                "function" => table.function = Some(meta.value()?.parse()?),
                "check" => table.check = Some(meta.value()?.parse()?),
                "tag" => table.tag = Some(meta.value()?.parse()?),
                "default" => table.default = Some(meta.value()?.parse()?),
                "example" => table.example = Some(meta.value()?.parse()?),
                "unreadable" => table.unreadable = Some(meta.value()?.parse()?),
                "others" => {
                    let content;
                    parenthesized!(content in meta.input);
                    table.others = Punctuated::parse_terminated(&content)?;
                }
                "source" => table.source = Some(meta.value()?.parse()?),
                "required" => table.required = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(table)
    }

    /// Returns `read` with these statements, which end with the value.
    fn function(&self, input: &DeriveInput, body: &TokenStream, has_default: bool) -> TokenStream {
        let (name, given) = (&input.ident, &self.given);
        let read = self.function.clone().unwrap_or_else(|| format_ident!("read"));
        let value = match &self.check {
            Some(check) => quote! {
                let section = { #body };
                #check;
                section
            },
            None => body.clone(),
        };
        let values = &self.default_given;
        let read_default = match values.is_empty() {
            true => quote!(Self::#read),
            false => quote!(|table| Self::#read(table, #values)),
        };
        let is_known = given.is_empty() || !values.is_empty();
        let default = (has_default && !self.required && is_known).then(|| {
            quote! {
                impl Default for #name {
                    fn default() -> Self {
                        crate::scenario::reader::defaults(#read_default)
                    }
                }
            }
        });
        quote! {
            impl #name {
                /// Reads the keys of its table.
                pub(crate) fn #read(table: &mut crate::scenario::reader::TableReader<'_>, #given) -> Self {
                    #value
                }
            }
            #default
        }
    }
}
