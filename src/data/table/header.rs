//! Columns of a table by their role: label, owner, or number of the row.

use std::path::Path;

use super::{PartRole, TableNames};
use crate::data::parts::Reference;
use crate::data::{DataError, column_rules};

/// Positions of a table's columns, by role.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub label: usize,
    /// Column of owners; `None` if owners are not requested, and in a test part.
    pub client: Option<usize>,
    /// Columns that hold the numbers of a row, in file order.
    pub of_row: Vec<usize>,
    /// Notes for the user about columns that are left out.
    pub notes: Vec<String>,
}

impl Header {
    /// Assigns roles to the columns of a file.
    ///
    /// # Errors
    /// Returns an error if a column is missing or named twice, or if the width of a row differs from the scenario's.
    pub fn read(
        path: &Path,
        columns: &[String],
        names: &TableNames,
        (role, reference): (PartRole, Option<&Reference>),
    ) -> Result<Header, DataError> {
        column_rules::differ(path, columns.iter().filter(|name| !is_index(name)))?;
        let find = |name: &str| columns.iter().position(|column| column == name);
        let label = find(&names.label).ok_or_else(|| lacking(path, columns, &names.label))?;
        let client = match (&names.client, role) {
            (Some(name), PartRole::Train) => {
                Some(find(name).ok_or_else(|| lacking(path, columns, name))?)
            }
            (Some(name), PartRole::Test) => find(name),
            (None, _) => None,
        };
        let is_named = |at: usize| at == label || Some(at) == client;
        let (index, of_row): (Vec<usize>, Vec<usize>) =
            (0..columns.len()).filter(|at| !is_named(*at)).partition(|at| is_index(&columns[*at]));
        let notes = index.iter().map(|at| {
            let name = match columns[*at].as_str() {
                "" => format!("column {}, which has no name,", at + 1),
                name => format!("the column `{name}`"),
            };
            format!("{name} is left out as an index of rows")
        });
        let header = Header {
            label,
            client: client.filter(|_| role == PartRole::Train),
            notes: notes.collect(),
            of_row,
        };
        match reference {
            _ if header.of_row.len() == names.width => Ok(header),
            Some(reference) => Err(reference.differs(path, &header.names(columns))),
            None => Err(header.wide(path, columns, names)),
        }
    }

    /// Returns the names of the numbers of a row.
    pub fn names(&self, columns: &[String]) -> Vec<String> {
        self.of_row.iter().map(|at| columns[*at].clone()).collect()
    }

    /// Returns the error for rows of another width than the scenario says.
    fn wide(&self, path: &Path, columns: &[String], names: &TableNames) -> DataError {
        let found = self.of_row.len();
        let named = self.names(columns);
        let left_out = if self.notes.is_empty() { "" } else { ", without an index of rows" };
        let given = names.client.as_ref().map(|client| format!(" and `{client}`"));
        DataError::advised(
            path,
            format!("rows of {} numbers", names.width),
            format!("rows of {found}: {}{left_out}", shortened(&named)),
            format!(
                "Set data.width = {found} if all of them are numbers of a row; every column but `{}`{} is",
                names.label,
                given.unwrap_or_default()
            ),
        )
    }
}

/// Returns true for an index column, which counts rows.
///
/// Pandas writes it without a name, which it reads again as `Unnamed: 0`, and names it `__index_level_0__` in Parquet.
fn is_index(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let level = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    name.is_empty()
        || name.strip_prefix("Unnamed: ").is_some_and(is_number)
        || level.is_some_and(is_number)
}

/// Returns the error for a column that is not there.
fn lacking(path: &Path, columns: &[String], name: &str) -> DataError {
    let advice = match columns {
        [only] if only.contains([';', '\t']) => {
            "Write the cells of a line with commas between them: to_csv(..., sep=\",\")"
        }
        _ => "Name the right one: data.label, data.client",
    };
    DataError::advised(
        path,
        format!("a column `{name}`"),
        format!("the columns {}", shortened(columns)),
        advice,
    )
}

/// Returns the first column names of a header, for errors.
fn shortened(columns: &[String]) -> String {
    let mut names: Vec<&str> = columns.iter().take(8).map(String::as_str).collect();
    if columns.len() > names.len() {
        names.push("...");
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        columns: &str,
        width: usize,
        client: Option<&str>,
        role: PartRole,
    ) -> Result<Header, String> {
        let columns: Vec<String> = columns.split(',').map(str::to_owned).collect();
        let client = client.map(str::to_owned);
        let names = TableNames { width, input: "features".into(), label: "label".into(), client };
        Header::read(Path::new("t.csv"), &columns, &names, (role, None))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_column_but_label_and_owner_is_of_the_row() {
        let header = read("a,label,user,b", 2, Some("user"), PartRole::Train).unwrap();
        assert_eq!((header.label, header.client, header.of_row), (1, Some(2), vec![0, 3]));
        // A part that is tested needs no owners, and has no use for them.
        let header = read("a,label,user,b", 2, Some("user"), PartRole::Test).unwrap();
        assert_eq!((header.client, header.of_row), (None, vec![0, 3]));
        let header = read("a,label,b", 2, Some("user"), PartRole::Test).unwrap();
        assert_eq!((header.client, header.of_row), (None, vec![0, 2]));
        let error = read("a,label,b", 2, Some("user"), PartRole::Train).unwrap_err();
        assert!(
            error.contains("expected a column `user`, found the columns a, label, b"),
            "{error}"
        );
    }

    #[test]
    fn an_index_of_rows_is_left_out_and_said() {
        for (columns, name) in [
            (",label,a,b", "column 1, which has no name,"),
            ("label,a,b,", "column 4, which has no name,"),
            ("Unnamed: 0,label,a,b", "the column `Unnamed: 0`"),
            ("label,a,b,__index_level_0__", "the column `__index_level_0__`"),
        ] {
            let header = read(columns, 2, None, PartRole::Train).unwrap();
            assert_eq!(header.of_row.len(), 2, "{columns}");
            assert!(header.notes[0].contains(name), "{:?}", header.notes);
            let error = read(columns, 3, None, PartRole::Train).unwrap_err();
            assert!(error.contains("found rows of 2: a, b, without an index of rows"), "{error}");
        }
        assert_eq!(read("Unnamed,label,index", 2, None, PartRole::Train).unwrap().notes, [""; 0]);
    }

    #[test]
    fn a_name_twice_and_other_marks_between_cells_are_refused() {
        let error = read("label,a,b,label", 3, None, PartRole::Train).unwrap_err();
        assert!(
            error.contains("expected columns of different names, found `label` twice"),
            "{error}"
        );
        assert!(read("label,a,a", 2, None, PartRole::Train).unwrap_err().contains("`a` twice"));
        let error = read("label;a;b", 2, None, PartRole::Train).unwrap_err();
        assert!(error.contains("with commas between them"), "{error}");
    }
}
