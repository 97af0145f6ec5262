//! Tables whose keys are names chosen by the user.

use super::TableReader;
use crate::scenario::reader::node::Node;
use crate::scenario::reader::readable::{Readable, ValueFault};

impl<'a> TableReader<'a> {
    /// Accepts all remaining keys unchecked.
    pub fn accept_rest(&mut self) {
        self.open = true;
        let Some(table) = self.entries() else { return };
        for (key, entry) in table {
            if let (false, Some(value)) = (self.known.contains(&key.as_str()), entry.node.to_toml())
            {
                self.read.effective.insert(key.clone(), value);
            }
        }
    }

    /// Returns all remaining keys, in the order in which they are written, as values of one type.
    ///
    /// It is for tables whose keys are names chosen by the user.
    pub fn rest<T: Readable>(&mut self) -> Vec<(String, T)> {
        self.open = true;
        self.read.open = true;
        let mut read = Vec::new();
        for (name, node) in self.in_order() {
            match T::read(node) {
                Ok(value) => read.push((name, value)),
                Err(mut fault) => {
                    let path = format!("`{}`", self.path_of(&name));
                    fault.message = fault.message.replace("{key}", &path);
                    self.report.fault(fault);
                }
            }
        }
        read
    }

    /// Returns all remaining keys, in the order in which they are written, as tables.
    pub fn rest_of_tables<C>(
        &mut self,
        mut read: impl FnMut(&str, &mut TableReader<'_>) -> C,
    ) -> Vec<C> {
        self.open = true;
        self.read.open = true;
        let mut tables = Vec::new();
        for (name, node) in self.in_order() {
            let path = self.path_of(&name);
            if node.as_table().is_none() {
                let mut fault = ValueFault::wrong_type(node, "a table");
                fault.message = format!("`{path}` must be a table");
                self.report.fault(fault.help(format!("write `[{path}]` and its keys below it")));
                continue;
            }
            let place = self.place_of(&name);
            tables.push(TableReader::nested(node, place, self.report, |t| read(&name, t)).0);
        }
        tables
    }

    /// Returns the remaining keys and their values, in the order in which they are written.
    fn in_order(&self) -> Vec<(String, &'a Node)> {
        let Some(table) = self.entries() else { return Vec::new() };
        let unknown = |name: &str| !self.known.contains(&name);
        let mut entries: Vec<_> = table.iter().filter(|(name, _)| unknown(name)).collect();
        entries.sort_by_key(|(_, entry)| entry.key);
        entries.into_iter().map(|(name, entry)| (name.clone(), &entry.node)).collect()
    }
}
