//! Derive `#[derive(Document)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{
    Data, DeriveInput, Error, Expr, Field, Fields, LitStr, Result, Token, Type, Variant,
    parenthesized,
};

use crate::columns::unit_of;
use crate::{attributes, doc};

/// Returns the implementation that describes a type in a document: keys of a struct, value of a newtype, text of an
/// enum.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let mut unit = None;
    attributes::read(&input.attrs, "document", &["unit"], |entry, meta| {
        let known = entry == "unit";
        if known {
            unit = Some(meta.value()?.parse::<LitStr>()?.value());
        }
        Ok(known)
    })?;
    let content = match &input.data {
        Data::Struct(of) => match &of.fields {
            Fields::Named(fields) => {
                let keys = fields.named.iter().map(|field| key(field, unit.as_deref()));
                let keys = keys.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
                quote!(crate::document::Content::Keys(&[#(#keys),*]))
            }
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => inside(&fields.unnamed[0]),
            _ => return Err(nothing(input)),
        },
        Data::Enum(of) if of.variants.iter().all(is_word) => {
            quote!(crate::document::Content::Value(crate::document::CellType::Text, ""))
        }
        _ => return Err(nothing(input)),
    };
    let name = &input.ident;
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #parameters crate::document::Document for #name #arguments #conditions {
            const CONTENT: crate::document::Content = #content;
        }
    })
}

fn is_word(variant: &Variant) -> bool {
    variant.fields.is_empty()
}

fn nothing(input: &DeriveInput) -> Error {
    let message = "a document is a struct with fields, a newtype or an enum of words";
    Error::new_spanned(&input.ident, message)
}

fn inside(field: &Field) -> TokenStream {
    let ty = &field.ty;
    quote!(<#ty as crate::document::Document>::CONTENT)
}

/// Returns the description of a field's key; `None` if it is not written.
fn key(field: &Field, unit: Option<&str>) -> Result<Option<TokenStream>> {
    let Some(SerializedKey { mut name, is_always_written }) = serialized_key(field)? else {
        return Ok(None);
    };
    let mut skipped = false;
    let (mut own_unit, mut of, mut content) = (None, String::new(), inside(field));
    let mut placeholders = Punctuated::<LitStr, Token![,]>::new();
    let known = ["name", "unit", "keys", "of", "content", "skip"];
    attributes::read(&field.attrs, "document", &known, |entry, meta| {
        let text = || Ok::<_, Error>(meta.value()?.parse::<LitStr>()?.value());
        match entry {
            "name" => name = text()?,
            "unit" => own_unit = Some(text()?),
            "of" => of = text()?,
            "keys" => {
                let words;
                parenthesized!(words in meta.input);
                placeholders = Punctuated::parse_terminated(&words)?;
            }
            "content" => {
                let written: Expr = meta.value()?.parse()?;
                content = quote!(#written);
            }
            "skip" => skipped = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if skipped {
        return Ok(None);
    }
    let by_name = Some(unit_of(&name)).filter(|unit| !unit.is_empty());
    let unit = match own_unit.as_deref().or(by_name).or(unit) {
        Some(unit) => quote!(Some(#unit)),
        None => quote!(None),
    };
    let meaning = doc::meaning(&field.attrs);
    Ok(Some(quote! {
        crate::document::Key {
            name: #name,
            content: #content,
            placeholders: &[#placeholders],
            unit: #unit,
            meaning: #meaning,
            of: #of,
            is_always_written: #is_always_written
        }
    }))
}

/// Key of a field as serde writes it.
struct SerializedKey {
    /// Name of the key; empty if the field is flattened.
    name: String,
    /// True if serde always writes the key, or those of a flattened field.
    is_always_written: bool,
}

/// Returns the key of a field; `None` if it is skipped.
fn serialized_key(field: &Field) -> Result<Option<SerializedKey>> {
    let (mut name, mut is_flattened) = (Some(attributes::name(field)), false);
    let mut is_always_written = true;
    attributes::read(&field.attrs, "serde", &[], |entry, meta| {
        let value = match meta.input.peek(Token![=]) {
            true => Some(meta.value()?.parse::<LitStr>()?.value()),
            false => None,
        };
        match entry {
            "rename" => name = value,
            "flatten" => (name, is_flattened) = (Some(String::new()), true),
            "skip" | "skip_serializing" => name = None,
            "skip_serializing_if" => is_always_written = false,
            _ => {}
        }
        Ok(true)
    })?;
    // An option is written as null; if flattened, it has no keys.
    is_always_written &= !(is_flattened && is_option(&field.ty));
    Ok(name.map(|name| SerializedKey { name, is_always_written }))
}

fn is_option(ty: &Type) -> bool {
    let Type::Path(of) = ty else { return false };
    of.path.segments.last().is_some_and(|last| last.ident == "Option")
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn written(input: DeriveInput) -> String {
        derive(&input).unwrap().to_string()
    }

    fn content(name: TokenStream, content: TokenStream) -> String {
        quote! {
            impl crate::document::Document for #name {
                const CONTENT: crate::document::Content = #content;
            }
        }
        .to_string()
    }

    #[test]
    fn keys_are_the_fields_as_serde_writes_them() {
        let report = parse_quote! {
            #[document(unit = "share")]
            struct Report {
                /// Wall time.
                #[serde(skip_serializing_if = "Option::is_none", default)]
                wall_s: Option<f64>,
                /// Mean accuracy.
                #[serde(rename = "faa")]
                mean: f64,
                #[serde(flatten)]
                cost: Cost,
                #[serde(flatten)]
                more: std::option::Option<More>,
                #[serde(skip)]
                counted: u64,
                #[document(of = "the source")]
                source: Source,
                /// Sums by kind.
                #[document(name = "<own|all>", keys("kind"), unit = "", content = SUMS)]
                own: Sums,
                #[document(skip)]
                all: Sums,
            }
        };
        let key = |name: &str, inside: TokenStream, words: TokenStream, rest: TokenStream| {
            quote! {
                crate::document::Key {
                    name: #name, content: #inside, placeholders: &[#words], #rest
                }
            }
        };
        let of = |ty: TokenStream| quote!(<#ty as crate::document::Document>::CONTENT);
        let rest = |unit: &str, meaning: &str, of: &str, is_always_written: bool| {
            quote! {
                unit: Some(#unit), meaning: #meaning, of: #of, is_always_written: #is_always_written
            }
        };
        let more = quote!(std::option::Option<More>);
        let keys = [
            key("wall_s", of(quote!(Option<f64>)), quote!(), rest("s", "wall time", "", false)),
            key("faa", of(quote!(f64)), quote!(), rest("share", "mean accuracy", "", true)),
            key("", of(quote!(Cost)), quote!(), rest("share", "", "", true)),
            key("", of(more), quote!(), rest("share", "", "", false)),
            key("source", of(quote!(Source)), quote!(), rest("share", "", "the source", true)),
            key("<own|all>", quote!(SUMS), quote!("kind"), rest("", "sums by kind", "", true)),
        ];
        let expected = quote!(crate::document::Content::Keys(&[#(#keys),*]));
        assert_eq!(written(report), content(quote!(Report), expected));
    }

    #[test]
    fn a_document_may_borrow_its_values() {
        let planned = parse_quote! {
            struct Planned<'a> {
                /// Plan.
                #[serde(flatten)]
                plan: &'a Plan,
            }
        };
        let written = written(planned);
        let begin = quote!(impl<'a> crate::document::Document for Planned<'a>).to_string();
        assert!(written.starts_with(&begin), "{written}");
        assert!(
            written.contains(&quote!(<&'a Plan as crate::document::Document>::CONTENT).to_string())
        );
    }

    #[test]
    fn newtypes_are_their_value_and_enums_are_text() {
        let names = parse_quote!(
            struct Names(Vec<String>);
        );
        let inside = quote!(<Vec<String> as crate::document::Document>::CONTENT);
        assert_eq!(written(names), content(quote!(Names), inside));
        let status = parse_quote!(
            enum Status {
                Running,
                Done,
            }
        );
        let text = quote!(crate::document::Content::Value(crate::document::CellType::Text, ""));
        assert_eq!(written(status), content(quote!(Status), text));
        let event = parse_quote!(
            enum Event {
                Closed { round: u32 },
            }
        );
        let error = derive(&event).unwrap_err().to_string();
        assert!(error.contains("a newtype or an enum of words"), "{error}");
    }
}
