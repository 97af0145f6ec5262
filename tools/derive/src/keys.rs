//! `#[derive(Keys)]`: `fn read` of a table, from a struct whose fields are its keys or an enum of which one key chooses.

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

/// Writes `fn read` and, where no key must be written, `Default`.
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
    /// Arguments of `read` behind the table.
    given: Punctuated<FnArg, Token![,]>,
    /// Name of the function, `read` if not given.
    function: Option<Ident>,
    /// Reports what contradicts; sees `section`, `table` and the arguments.
    check: Option<Expr>,
    /// Key that chooses a variant.
    tag: Option<LitStr>,
    /// Variant that is chosen where the key is not written, or an expression for its word.
    default: Option<Expr>,
    /// Variant that an error proposes; then the key must be written.
    example: Option<Ident>,
    /// Value of an enum whose key cannot be read; then no other key is judged.
    unreadable: Option<Expr>,
    /// Keys in addition to the fields that have no meaning with some variants.
    others: Punctuated<LitStr, Token![,]>,
    /// Some key must be written, although no field says so: there is no `Default`.
    required: bool,
    /// Source of the default.
    source: Option<Expr>,
}

impl Table {
    fn read(input: &DeriveInput) -> Result<Table> {
        let mut table = Table::default();
        let known = [
            "given",
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

    /// Writes `read` around statements that end with the value.
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
        let default = (has_default && !self.required && given.is_empty()).then(|| {
            quote! {
                impl Default for #name {
                    fn default() -> Self {
                        crate::scenario::reader::defaults(Self::#read)
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
