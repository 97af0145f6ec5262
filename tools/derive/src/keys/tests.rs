use quote::quote;
use syn::{DeriveInput, parse_quote};

use super::derive;

fn refused(input: DeriveInput) -> String {
    derive(&input).unwrap_err().to_string()
}

#[test]
fn fields_are_read_in_order() {
    let section = parse_quote! {
        struct Section {
            /// Clients that own data.
            #[key(default = 10, at_least = 1.0, source = "HGP")]
            clients: u32,
            /// Largest norm.
            clip: Option<f64>,
            #[key(table)]
            noise: Option<Noise>,
        }
    };
    let expected = quote! {
        impl Section {
            /// Reads the keys of its table.
            pub(crate) fn read(table: &mut crate::scenario::reader::TableReader<'_>,) -> Self {
                let clients: u32 = table.get(
                    &crate::scenario::reader::Param::<u32>::new("clients", 10, "clients that own data")
                        .at_least(1.0).source("HGP")
                );
                let clip: Option<f64> = table.optional(
                    &crate::scenario::reader::Param::<f64>::unset("clip", "largest norm")
                );
                let noise: Option<Noise> = table.optional_table("noise", <Noise>::read);
                Self { clients, clip, noise }
            }
        }
        impl Default for Section {
            fn default() -> Self {
                crate::scenario::reader::defaults(Self::read)
            }
        }
    };
    assert_eq!(derive(&section).unwrap().to_string(), expected.to_string());
}

#[test]
fn arguments_leave_no_default_unless_it_has_values_for_them() {
    let section = |entries| -> DeriveInput {
        parse_quote! {
            #[keys(#entries)]
            struct Section {
                /// A share.
                #[key(default = usual)]
                share: f64,
            }
        }
    };
    let without = derive(&section(quote!(given(usual: f64)))).unwrap().to_string();
    assert!(!without.contains("Default"), "{without}");
    let entries = quote!(given(usual: f64), default_given(0.5), function = read_usual);
    let with = derive(&section(entries)).unwrap().to_string();
    let default = quote! {
        impl Default for Section {
            fn default() -> Self {
                crate::scenario::reader::defaults(|table| Self::read_usual(table, 0.5))
            }
        }
    };
    assert!(with.ends_with(&default.to_string()), "{with}");
}

#[test]
fn required_keys_leave_no_default() {
    let section = parse_quote! {
        struct Section {
            /// A share.
            #[key(example = 0.1)]
            share: f64,
        }
    };
    let written = derive(&section).unwrap().to_string();
    assert!(written.contains("required (\"share\" , 0.1"), "{written}");
    assert!(!written.contains("Default"), "{written}");
}

#[test]
fn conditional_keys_have_their_default_otherwise() {
    let section = parse_quote! {
        #[keys(given(module: bool), function = read_for)]
        struct Section {
            /// A share.
            #[key(default = 0.5, when = module)]
            share: f64,
            /// A bound.
            #[key(when = share > 0.0)]
            bound: Option<f64>,
        }
    };
    let written = derive(&section).unwrap().to_string();
    let signature = "fn read_for (table : & mut crate :: scenario :: reader :: TableReader < '_ > , module : bool)";
    assert!(written.contains(signature), "{written}");
    assert!(written.contains("if module { table . get (") && written.contains("} else { 0.5 }"));
    assert!(written.contains("if share > 0.0 { table . optional ("), "{written}");
    assert!(written.contains("} else { None }") && !written.contains("Default"), "{written}");
}

#[test]
fn names_and_defaults_may_be_given() {
    let pairs = parse_quote! {
        #[keys(given(names: [&'static str; 2], usual: Pairs), check = section.check(table))]
        struct Pairs {
            /// Rank of a pair.
            #[key(name = names[1], default = usual.rank)]
            rank: u32,
        }
    };
    let written = derive(&pairs).unwrap().to_string();
    let given = quote!(names: [&'static str; 2], usual: Pairs).to_string();
    assert!(written.contains(&given), "{written}");
    assert!(written.contains("new (names [1] , usual . rank , \"rank of a pair\")"), "{written}");
    assert!(written.contains("; section . check (table) ; section"), "{written}");
    assert!(!written.contains("Default"), "{written}");
}

#[test]
fn words_choose_a_variant_and_refuse_keys_of_others() {
    let rule = parse_quote! {
        /// The step rule.
        #[keys(tag = "kind", default = Sgd)]
        enum Rule {
            /// Plain.
            Sgd,
            /// With moments.
            #[value(name = "adam")]
            Adam {
                /// Added to the root.
                #[key(default = 1e-8)]
                eps: f64,
            },
        }
    };
    let written = derive(&rule).unwrap().to_string();
    let words = quote!(
        enum RuleWord {
            #[doc = r" Plain."]
            Sgd,
            #[doc = r" With moments."]
            #[value(name = "adam")]
            Adam,
        }
    );
    assert!(written.contains(&words.to_string()), "{written}");
    assert!(written.contains("new (\"kind\" , RuleWord :: Sgd , \"the step rule\")"), "{written}");
    assert!(written.contains("table . foreign (& [\"eps\"]"), "{written}");
}

#[test]
fn keys_on_a_condition_are_options() {
    let section = parse_quote! {
        #[keys(required)]
        struct Section {
            /// Share that is enough.
            #[key(when = closes, default = 0.8, or_infinite)]
            quorum: Option<f64>,
            /// Seconds.
            #[key(when = closes)]
            deadline_s: Option<f64>,
        }
    };
    let written = derive(&section).unwrap().to_string();
    let quorum = quote! {
        let quorum: Option<f64> = if closes {
            Some(table.get(&crate::scenario::reader::Param::<f64>::new("quorum", 0.8, "share that is enough").or_infinite()))
        } else {
            None
        };
    };
    assert!(written.contains(&quorum.to_string()), "{written}");
    let deadline = quote! {
        let deadline_s: Option<f64> = if closes {
            table.optional(&crate::scenario::reader::Param::<f64>::unset("deadline_s", "seconds"))
        } else {
            None
        };
    };
    assert!(written.contains(&deadline.to_string()), "{written}");
    assert!(!written.contains("Default"), "{written}");
}

#[test]
fn a_word_that_cannot_be_read_leaves_other_keys_alone() {
    let rule = parse_quote! {
        /// The rule.
        #[keys(tag = "kind", example = Even, unreadable = Rule::Even, others("least"))]
        enum Rule {
            /// All alike.
            Even,
        }
    };
    let written = derive(&rule).unwrap().to_string();
    let fallback = quote!(None => { table.accept_rest(); Rule::Even });
    assert!(written.contains(&fallback.to_string()), "{written}");
    assert!(written.contains("table . foreign (& [\"least\"]"), "{written}");
    let implied = parse_quote! {
        /// The rule.
        #[keys(tag = "kind", default = RuleWord::implied(table))]
        enum Rule {
            /// All alike.
            Even,
        }
    };
    let written = derive(&implied).unwrap().to_string();
    let param = quote!(new("kind", RuleWord::implied(table), "the rule"));
    assert!(written.contains(&param.to_string()), "{written}");
}

#[test]
fn errors_name_the_key_or_the_entry() {
    let bare = parse_quote!(
        struct S {
            /** A share. */
            share: f64,
        }
    );
    assert!(refused(bare).starts_with("the key `share` needs `#[key(default = ...)]`"));
    let silent = parse_quote!(
        struct S {
            #[key(default = 0.5)]
            share: f64,
        }
    );
    assert_eq!(refused(silent), "the key `share` needs a doc comment: its meaning");
    let slip = parse_quote!(
        struct S {
            /** A share. */
            #[key(defautl = 0.5)]
            share: f64,
        }
    );
    assert!(
        refused(slip)
            .starts_with("unknown entry `defautl` in `#[key]`: there are default, example")
    );
    assert!(
        refused(parse_quote!(
            enum E {
                A,
            }
        ))
        .contains("needs `#[keys(tag")
    );
    assert!(
        refused(parse_quote!(
            #[keys(tag = "kind")]
            enum E {
                A,
            }
        ))
        .contains("default = VARIANT")
    );
    assert!(
        refused(parse_quote!(
            #[keys(tag = "kind", default = A)]
            enum E {
                A(u32),
            }
        ))
        .contains("need names")
    );
    let always = parse_quote!(
        struct S {
            /** A share. */
            #[key(when = drawn, example = 0.5)]
            share: f64,
        }
    );
    assert!(refused(always).contains("must be the field of an `Option`"));
}
