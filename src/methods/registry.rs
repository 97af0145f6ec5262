//! Registry of the methods that a scenario may name and `fedcast methods` prints.
//!
//! ```
//! use fedcast::methods::Registry;
//! let methods = Registry::builtin();
//! let hgp = methods.find("hgp")?;
//! assert!(hgp.params().iter().any(|key| key.key == "prompt_len"));
//! let error = methods.find("hpg").err().expect("no such method");
//! assert_eq!(error.to_string(), "there is no method `hpg`; did you mean `hgp`?");
//! # Ok::<(), fedcast::methods::UnknownMethod>(())
//! ```
//!
//! Tests and programs add their own methods with [`Registry::with`].

mod chosen;
mod entries;

use std::fmt;
use std::sync::Arc;

use self::chosen::{Chosen, ComposedRecipe};

use super::entry::MethodEntry;
use super::first_method::{FirstKeys, NO_FIRST};
use super::recipe::Recipe;
use crate::policy::{Method, ModelFacts};
use crate::scenario::reader::{TableReader, nearest};
use crate::scenario::{ChosenMethod, MethodCatalogue, MethodSection, ScenarioError};

/// Error for a name that no method has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no method `{name}`; {help}")]
pub struct UnknownMethod {
    name: String,
    help: String,
}

/// Registry of the methods that a program knows; clones share them.
#[derive(Clone)]
pub struct Registry {
    entries: Arc<Vec<MethodEntry>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.names()).finish()
    }
}

impl Registry {
    /// Returns the methods of fedcast.
    pub fn builtin() -> Registry {
        Registry { entries: Arc::new(entries::builtin()) }
    }

    /// Returns the registry with one more method; it replaces a method of the same name.
    pub fn with(mut self, entry: MethodEntry) -> Registry {
        let entries = Arc::make_mut(&mut self.entries);
        entries.retain(|known| known.name != entry.name);
        entries.push(entry);
        self
    }

    /// Returns every method, in the order of the list.
    pub fn all(&self) -> &[MethodEntry] {
        &self.entries
    }

    /// Returns the method of that name.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn find(&self, name: &str) -> Result<&MethodEntry, UnknownMethod> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| {
            let help = match nearest(name, self.entries.iter().map(|entry| entry.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", self.names().join(", ")),
            };
            UnknownMethod { name: name.to_owned(), help }
        })
    }

    /// Builds the method of a scenario for a model.
    ///
    /// # Errors
    /// When the section was not read with this registry and does not fit the method.
    pub fn build(
        &self,
        section: &MethodSection,
        facts: &ModelFacts,
    ) -> Result<Arc<dyn Method>, ScenarioError> {
        if let Some(Chosen(recipe)) = section.chosen() {
            return Ok(recipe.build(facts));
        }
        let backbone = facts.backbone.kind();
        let recipe = section.config(|table| self.recipe(&section.name, backbone, table))?;
        Ok(recipe.build(facts))
    }

    /// Reads the keys of a method and, for a method on features, those of `[method.first]`.
    ///
    /// # Panics
    /// When the registry has no method of this name; the reader checks it before.
    fn recipe(&self, name: &str, backbone: &str, table: &mut TableReader<'_>) -> Box<dyn Recipe> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let entry = entry.expect("the reader asks for methods of the list");
        let then = (entry.read)(table);
        if !entry.on_features {
            if table.given("first") {
                let message = format!("`{name}` learns features itself and cannot follow a method");
                table.reject("first", &message, "not here", "remove [method.first]");
                table.reported("first");
            }
            return then;
        }
        let first = table.table("first", |table| {
            let FirstKeys { name, rounds } = FirstKeys::read(table, backbone);
            if name == NO_FIRST {
                return None;
            }
            let refused = match self.find(&name) {
                Ok(first) if first.lends_features => None,
                Ok(_) => Some((
                    format!("`{name}` leaves the backbone as it is, so that it adapts no features"),
                    "adapts no features",
                    "name a method that trains or prompts the backbone, or `none`".to_owned(),
                )),
                Err(unknown) => Some((unknown.to_string(), "unknown method", unknown.help)),
            };
            if let Some((message, label, help)) = refused {
                table.reject("name", &message, label, &help);
                table.accept_rest();
                return None;
            }
            Some((self.recipe(&name, backbone, table), rounds))
        });
        match first {
            Some((first, rounds)) => Box::new(ComposedRecipe { first, rounds, then }),
            None => then,
        }
    }
}

impl MethodCatalogue for Registry {
    fn names(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.name.to_owned()).collect()
    }

    fn read(
        &self,
        name: &str,
        backbone: &str,
        table: &mut TableReader<'_>,
    ) -> Arc<dyn ChosenMethod> {
        Arc::new(Chosen(self.recipe(name, backbone, table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::TaskView;
    use crate::model::{BackboneConfig, PixelShape, VitConfig};
    use crate::policy::{MemoryFootprint, MethodWrapper, Stage, WireForm, Wrapped, upload_layouts};
    use crate::quantity::TaskId;

    fn facts() -> ModelFacts {
        let backbone = VitConfig::default().into();
        ModelFacts {
            backbone,
            classes: 10,
            tasks: 5,
            clients: 1,
            form: WireForm::Full,
            auxiliary: None,
        }
    }

    #[test]
    fn every_method_is_described_and_builds_from_its_defaults() {
        for entry in Registry::builtin().all() {
            for text in [entry.idea, entry.source, entry.state] {
                assert!(text.len() > 20, "{}: {text}", entry.name);
            }
            assert!(entry.family.is_some(), "{} stands in no list", entry.name);
            let parameters = toml::Table::new();
            let section = MethodSection::new(entry.name, parameters);
            let method = Registry::builtin().build(&section, &facts()).unwrap();
            assert_eq!(method.profile().uses_network, !["joint", "oracle"].contains(&entry.name));
            assert!(
                upload_layouts(&*method, &facts())
                    .iter()
                    .any(|upload| upload.tensor_specs().count() > 0)
            );
        }
    }

    /// Of two keys of one name in a table the second would hide the first.
    #[test]
    fn keys_of_a_method_have_different_names() {
        for entry in Registry::builtin().all() {
            let mut names: Vec<String> = entry.params().into_iter().map(|key| key.key).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", entry.name);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_advice() {
        let registry = Registry::builtin();
        let of =
            |name| registry.find(name).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(of("fedvag").contains("did you mean `fedavg`?"), "{}", of("fedvag"));
        assert!(
            of("xyz").contains(
                "there are hgp, fedavg, joint, adapter, stsa, stsa-e, fedavg-prompt, hepco"
            ),
            "{}",
            of("xyz")
        );
        let one_more = MethodEntry { name: "mine", ..registry.find("fedavg").unwrap().clone() };
        assert!(registry.clone().with(one_more).find("mine").is_ok());
    }

    #[test]
    fn a_method_that_learns_features_cannot_follow_another() {
        let text = "train = \"head\"\n[first]\nname = \"fedavg\"\ntrain = \"head\"";
        let parameters: toml::Table = text.parse().unwrap();
        let section = MethodSection::new("hgp", parameters.clone());
        let error = Registry::builtin().build(&section, &facts()).err().unwrap().to_string();
        assert!(error.contains("remove [method.first]"), "{error}");

        let entry = MethodEntry {
            name: "upon",
            on_features: true,
            ..Registry::builtin().find("hgp").unwrap().clone()
        };
        let section = MethodSection::new("upon", parameters);
        assert!(Registry::builtin().with(entry).build(&section, &facts()).is_ok());

        let of = |name| Registry::builtin().find(name).unwrap().params();
        assert!(of("stsa").iter().any(|key| key.key == "first.name"));
        assert!(of("hgp").iter().all(|key| !key.key.starts_with("first")));

        let alone: toml::Table = "[first]\nname = \"fedcil\"".parse().unwrap();
        let section = MethodSection::new("stsa", alone);
        let error = Registry::builtin().build(&section, &facts()).err().unwrap().to_string();
        assert!(error.contains("`fedcil` leaves the backbone as it is"), "{error}");

        let none: toml::Table = "[first]\nname = \"none\"".parse().unwrap();
        let section = MethodSection::new("stsa", none);
        assert!(Registry::builtin().build(&section, &facts()).is_ok());
    }

    #[test]
    fn a_composition_has_what_both_of_its_methods_have() {
        let of = |name: &str, first: Option<&str>| {
            let table =
                first.map_or_else(String::new, |first| format!("[first]\nname = \"{first}\""));
            let section = MethodSection::new(name, table.parse().unwrap());
            Registry::builtin().build(&section, &facts()).unwrap()
        };
        let held = |name, first| of(name, first).profile().memory_footprint.unwrap();
        let (scaffold, alone) = (held("scaffold", None), held("stsa", Some("none")));
        assert!(scaffold.client > 0 && alone.client == 0);
        let both = of("stsa", Some("scaffold"));
        let MemoryFootprint { server, client } = both.profile().memory_footprint.unwrap();
        assert_eq!((server, client), (scaffold.server + alone.server, scaffold.client));
        assert!(!both.profile().stateless && of("stsa", Some("fedavg")).profile().stateless);

        struct Inside(Arc<dyn Method>);
        impl MethodWrapper for Inside {
            fn inner(&self) -> &dyn Method {
                &*self.0
            }
        }
        let around = Wrapped(Inside(both));
        assert_eq!(around.profile().memory_footprint, Some(MemoryFootprint { server, client }));

        let roles = |name, first| of(name, first).profile().roles;
        assert!(roles("cfed", None).len() > 1);
        assert_eq!(roles("stsa", Some("cfed")), roles("cfed", None));
    }

    #[test]
    fn the_backbone_says_which_method_comes_first() {
        let section = MethodSection::new("stsa", toml::Table::new());
        let phases = |backbone: BackboneConfig| {
            let facts = ModelFacts { backbone, ..facts() };
            let method = Registry::builtin().build(&section, &facts).unwrap();
            let view = TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] };
            let stage = Stage::of(Arc::new(view), 2);
            let shape = method.profile().features;
            let names = shape.sections.iter().flat_map(|section| &section.tensors);
            let first = names.map(|tensor| tensor.name.to_string()).next();
            (method.phases(&stage, 4).len(), first)
        };
        let first = |name: &str| Some(name.to_owned());
        assert_eq!(phases(VitConfig::default().into()), (2, first("adapter.00.down.bias")));
        assert_eq!(phases(BackboneConfig::ResNet(Default::default())), (2, first("bn1.bias")));
        let pixels = PixelShape { channels: 1, image: 8 };
        assert_eq!(phases(BackboneConfig::Pixels(pixels)), (1, None));
    }
}
