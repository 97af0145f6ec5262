//! Derive `#[derive(Columns)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, LitStr, Result};

use crate::{attributes, doc};

/// Returns the implementation that lists the columns of a row type.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(row) = &input.data else { return Err(no_row(input)) };
    let Fields::Named(fields) = &row.fields else { return Err(no_row(input)) };
    let columns = fields.named.iter().map(column).collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    Ok(quote! {
        impl crate::report::column::Columns for #name {
            const COLUMNS: &'static [crate::report::column::Column] = &[#(#columns),*];
        }
    })
}

fn no_row(input: &DeriveInput) -> Error {
    Error::new_spanned(&input.ident, "columns are the fields of a struct with names")
}

fn column(field: &Field) -> Result<TokenStream> {
    let (mut unit, mut model) = (None, None);
    attributes::read(&field.attrs, "column", &["unit", "as_in"], |entry, meta| {
        match entry {
            "unit" => unit = Some(meta.value()?.parse::<LitStr>()?.value()),
            "as_in" => model = Some(meta.value()?.parse::<Expr>()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let name = attributes::name(field);
    let cells = &field.ty;
    let cells = quote!(<#cells as crate::document::Document>::CONTENT.cells());
    if let Some(model) = model {
        return Ok(quote!(crate::report::column::Column { name: #name, cells: #cells, ..#model }));
    }
    let meaning = doc::meaning(&field.attrs);
    if meaning.is_empty() {
        let message = format!(
            "the column `{name}` needs a doc comment: its meaning, or `#[column(as_in = ...)]`"
        );
        return Err(Error::new_spanned(field, message));
    }
    let unit = unit.unwrap_or_else(|| unit_of(&name).to_owned());
    Ok(quote! {
        crate::report::column::Column { name: #name, cells: #cells, unit: #unit, meaning: #meaning }
    })
}

/// Returns the unit that the name of a column or key implies; empty if it implies none.
pub fn unit_of(name: &str) -> &'static str {
    match name {
        _ if name.ends_with("_mb_per_s") => "MB/s",
        _ if name.ends_with("_mb") => "MB",
        _ if name.ends_with("_s") => "s",
        _ if name == "bytes" || name.starts_with("bytes_") => "bytes",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn written(input: DeriveInput) -> String {
        derive(&input).unwrap().to_string()
    }

    fn refused(input: DeriveInput) -> String {
        derive(&input).unwrap_err().to_string()
    }

    #[test]
    fn columns_are_the_fields_with_unit_and_meaning() {
        let row = parse_quote! {
            struct Row {
                #[column(as_in = ROUND)]
                round: u32,
                /// Virtual time at which it closed.
                closed_s: Option<Number>,
                /// Right answers over all.
                #[column(unit = "share")]
                accuracy: Number,
            }
        };
        let expected = quote! {
            impl crate::report::column::Columns for Row {
                const COLUMNS: &'static [crate::report::column::Column] = &[
                    crate::report::column::Column {
                        name: "round",
                        cells: <u32 as crate::document::Document>::CONTENT.cells(),
                        ..ROUND
                    },
                    crate::report::column::Column {
                        name: "closed_s",
                        cells: <Option<Number> as crate::document::Document>::CONTENT.cells(),
                        unit: "s",
                        meaning: "virtual time at which it closed"
                    },
                    crate::report::column::Column {
                        name: "accuracy",
                        cells: <Number as crate::document::Document>::CONTENT.cells(),
                        unit: "share",
                        meaning: "right answers over all"
                    }
                ];
            }
        };
        assert_eq!(written(row), expected.to_string());
    }

    #[test]
    fn names_say_units() {
        let units =
            ["up_mb_per_s", "peak_mb", "work_s", "bytes", "bytes_up", "loss", "mb"].map(unit_of);
        assert_eq!(units, ["MB/s", "MB", "s", "bytes", "bytes", "", ""]);
    }

    #[test]
    fn errors_name_the_column_or_the_entry() {
        let silent = parse_quote!(
            struct Row {
                loss: Number,
            }
        );
        assert!(refused(silent).starts_with("the column `loss` needs a doc comment"));
        let slip = parse_quote! {
            struct Row {
                /// Loss.
                #[column(unti = "nats")]
                loss: Number,
            }
        };
        assert_eq!(refused(slip), "unknown entry `unti` in `#[column]`: there are unit, as_in");
        assert!(
            refused(parse_quote!(
                enum Row {
                    One,
                }
            ))
            .contains("fields of a struct")
        );
    }
}
