//! Migration of scenario and study files from schema 1 to schema 2.
//!
//! Schema 2 has other names for some keys and values; what a file means stays. [`migrate`] replaces old names in a text and
//! leaves comments and layout as they are: keys of tables in any form, keys and values that the axes and changes of a study
//! set, and overrides written as text. [`renamed_key`] and [`renamed_word`] say the new name of one key or value.
//!
//! ```
//! use fedcast::scenario::migration::{migrate, new_path};
//!
//! let text = "schema = 1\n\n[client]\nbatch = 16  # samples\n";
//! let migrated = migrate(text, "a.toml")?;
//! assert_eq!(migrated.text, "schema = 2\n\n[client]\nbatch_size = 16  # samples\n");
//! assert_eq!(migrate(&migrated.text, "a.toml")?.changes, []);
//! assert_eq!(new_path("client.batch", None).as_deref(), Some("client.batch_size"));
//! # Ok::<(), fedcast::scenario::ScenarioError>(())
//! ```

mod file;
mod names;
mod places;
mod renaming;
mod table;
mod tokens;

pub use file::{Migrated, RenamedName, migrate};
pub(crate) use names::schema_help;
pub use names::{new_path, renamed_key, renamed_word};
pub use renaming::new_override;

#[cfg(test)]
mod tests;
