//! Enums: a key selects a variant by a word, and the variant's fields are then read. Keys of other variants are errors
//! that say so.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, DataEnum, DeriveInput, Error, Expr, Fields, Result, Variant, parse_quote};

use super::Table;
use super::field::{Key, keys, read};
use crate::doc;

/// Returns `read` of an enum, and the enum of its words.
pub fn derive(input: &DeriveInput, data: &DataEnum, table: &Table) -> Result<TokenStream> {
    let Some(tag) = &table.tag else {
        let message = "an enum needs `#[keys(tag = \"...\")]`: the key that chooses a variant";
        return Err(Error::new_spanned(&input.ident, message));
    };
    let words = format_ident!("{}Word", input.ident);
    let meaning = doc::meaning(&input.attrs);
    let param = match (&table.default, &table.example) {
        (Some(default), None) => {
            let word = match default {
                Expr::Path(variant) if variant.path.get_ident().is_some() => {
                    quote!(#words::#variant)
                }
                word => quote!(#word),
            };
            quote!(new(#tag, #word, #meaning))
        }
        (None, Some(example)) => quote!(required(#tag, #words::#example, #meaning)),
        _ => {
            let message = format!(
                "the key `{}` needs `default = VARIANT` or `example = VARIANT`",
                tag.value()
            );
            return Err(Error::new_spanned(&input.ident, message));
        }
    };
    let source = table.source.as_ref().map(|source| quote!(.source(#source)));
    let variants = data.variants.iter().map(Choosable::new).collect::<Result<Vec<_>>>()?;
    let word_variants = variants.iter().map(Choosable::word);
    let arms = variants.iter().map(|variant| variant.arm(&words)).collect::<Result<Vec<_>>>()?;
    let mut names: Vec<Expr> = table.others.iter().map(|name| parse_quote!(#name)).collect();
    for key in variants.iter().flat_map(|variant| &variant.keys).filter(|key| key.is_key()) {
        let is_new = |known: &Expr| quote!(#known).to_string() != key.word();
        if names.iter().all(is_new) {
            names.push(key.name.clone());
        }
    }
    let condition = format!("{} = \"{{}}\"", tag.value());
    let foreign = (!names.is_empty()).then(|| {
        quote!(table.foreign(&[#(#names),*], &format!(#condition, crate::scenario::reader::Choice::word(&word)));)
    });
    let param = quote!(crate::scenario::reader::Param::#param #source);
    let chosen = quote! {
        let read = match word { #(#arms),* };
        #foreign
        read
    };
    let body = match &table.unreadable {
        Some(unreadable) => quote! {
            match table.require(&#param) {
                Some(word) => {
                    let word: #words = word;
                    #chosen
                }
                None => {
                    table.accept_rest();
                    #unreadable
                }
            }
        },
        None => quote! {
            let word: #words = table.get(&#param);
            #chosen
        },
    };
    let function = table.function(input, &body, table.example.is_none());
    Ok(quote! {
        #[derive(Clone, Copy, PartialEq, ::clap::ValueEnum, crate::scenario::reader::Choice)]
        enum #words { #(#word_variants,)* }
        #function
    })
}

/// Variant of the enum with its keys.
struct Choosable<'a> {
    variant: &'a Variant,
    keys: Vec<Key<'a>>,
}

impl<'a> Choosable<'a> {
    fn new(variant: &'a Variant) -> Result<Choosable<'a>> {
        let keys = match &variant.fields {
            Fields::Named(fields) => keys(fields)?,
            Fields::Unit => Vec::new(),
            Fields::Unnamed(fields) => {
                let message =
                    format!("the fields of `{}` need names: those of their keys", variant.ident);
                return Err(Error::new_spanned(fields, message));
            }
        };
        Ok(Choosable { variant, keys })
    }

    /// Returns the variant in the enum of words, with the same documentation and `#[value(...)]`.
    fn word(&self) -> TokenStream {
        let own = |attribute: &&Attribute| {
            attribute.path().is_ident("doc") || attribute.path().is_ident("value")
        };
        let (attributes, name) = (self.variant.attrs.iter().filter(own), &self.variant.ident);
        quote!(#(#attributes)* #name)
    }

    fn arm(&self, words: &proc_macro2::Ident) -> Result<TokenStream> {
        let name = &self.variant.ident;
        let read = read(&self.keys, &quote!(Self::#name))?;
        Ok(quote!(#words::#name => { #read }))
    }
}
