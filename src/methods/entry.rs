//! Entry of a method in the registry: its name, texts and keys.

use std::sync::Arc;

use super::Requirement;
use super::family::{self, MethodFamily};
use super::first_method::FirstKeys;
use super::parts::AveragingMethod;
use super::recipe::{Averages, Recipe};
use crate::scenario::reader::{KeyDoc, TableReader, defaults, describe};

/// Function that reads the settings of a method from its `[method]` table.
pub type ReadRecipe = Arc<dyn Fn(&mut TableReader<'_>) -> Box<dyn Recipe> + Send + Sync>;

/// Entry of the registry for one method.
#[derive(Clone)]
pub struct MethodEntry {
    /// Value of `method.name` in a scenario.
    pub name: &'static str,
    /// List of methods that contains it; `None` for methods that programs add.
    pub family: Option<MethodFamily>,
    /// Name as its paper writes it, for tables and legends (see [`display_name`](super::display_name)).
    pub name_in_print: Option<&'static str>,
    /// Idea of the method, in a sentence or two.
    pub idea: &'static str,
    /// Paper that describes it.
    pub source: &'static str,
    /// State that server and clients keep, in words.
    pub state: &'static str,
    /// Largest global gradient norm if `client.max_grad_norm` is not set.
    pub clip: Option<f64>,
    /// True if it can learn from the frozen features of another method (`[method.first]`).
    pub on_features: bool,
    /// True if another method can learn from its features.
    pub lends_features: bool,
    /// Reader of its settings.
    pub read: ReadRecipe,
}

impl MethodEntry {
    /// Creates an entry from a name and a reader of settings; the caller fills in the texts.
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

    /// Creates the entry of a method that averages parameters.
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

    /// Returns the year of the paper, if the source names one.
    pub fn year(&self) -> Option<u16> {
        family::year(self.source)
    }

    /// Returns the requirements of the method with its default settings.
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
