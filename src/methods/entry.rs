//! Entry of a method in the registry: its name, texts and keys.

use std::sync::Arc;

use super::Requirement;
use super::family::{self, MethodFamily};
use super::first_method::FirstKeys;
use super::parts::AveragingMethod;
use super::recipe::{Averages, Recipe};
use crate::scenario::reader::{KeyDoc, TableReader, defaults, describe};

/// Reads the settings of a method from its `[method]` table.
pub type ReadRecipe = Arc<dyn Fn(&mut TableReader<'_>) -> Box<dyn Recipe> + Send + Sync>;

/// One method of the registry.
#[derive(Clone)]
pub struct MethodEntry {
    /// Value of `method.name` in a scenario.
    pub name: &'static str,
    /// List that shows it; `None` for methods that programs add.
    pub family: Option<MethodFamily>,
    /// Name as its paper writes it, for tables and legends (see [`display_name`](super::display_name)).
    pub name_in_print: Option<&'static str>,
    /// The idea, in a sentence or two.
    pub idea: &'static str,
    /// The paper.
    pub source: &'static str,
    /// Things that server and clients keep, in words.
    pub state: &'static str,
    /// Largest global gradient norm where `client.max_grad_norm` is not set.
    pub clip: Option<f64>,
    /// True if it can learn from the frozen features of another method (`[method.first]`).
    pub on_features: bool,
    /// True if another method can learn from its features.
    pub lends_features: bool,
    /// Reads its settings.
    pub read: ReadRecipe,
}

impl MethodEntry {
    /// Returns a method of this name, whose settings are read so; the texts are to be filled in.
    pub fn of<R: Recipe + 'static>(
        name: &'static str,
        read: impl Fn(&mut TableReader<'_>) -> R + Send + Sync + 'static,
    ) -> MethodEntry {
        MethodEntry {
            name,
            family: None,
            name_in_print: None,
            idea: "",
            source: "",
            state: "",
            clip: None,
            on_features: false,
            lends_features: true,
            read: Arc::new(move |table| Box::new(read(table))),
        }
    }

    /// Returns a method that averages parameters.
    pub fn averaging<C: AveragingMethod>(
        name: &'static str,
        read: impl Fn(&mut TableReader<'_>) -> C + Send + Sync + 'static,
    ) -> MethodEntry {
        MethodEntry::of(name, move |table| Averages(read(table)))
    }

    /// Puts the entry in the list of a family.
    pub fn of_family(self, family: MethodFamily) -> MethodEntry {
        MethodEntry { family: Some(family), ..self }
    }

    /// Gives the entry its name in tables and legends.
    pub fn in_print(self, name: &'static str) -> MethodEntry {
        MethodEntry { name_in_print: Some(name), ..self }
    }

    /// Returns the year of its paper, where its source names one.
    pub fn year(&self) -> Option<u16> {
        family::year(self.source)
    }

    /// Returns requirements of the method with its defaults.
    pub fn requirements(&self) -> Vec<Requirement> {
        defaults(|table| (self.read)(table)).requirements()
    }

    /// Returns the keys of its `[method]` table, with defaults and sources.
    pub fn params(&self) -> Vec<KeyDoc> {
        describe(|table| {
            (self.read)(table);
            if self.on_features {
                table.table("first", |first| FirstKeys::read(first, "vit"));
            }
        })
    }
}
