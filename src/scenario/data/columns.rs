//! `data.width`, `data.shape`, `data.input`, `data.label` and `data.client`: columns, arrays or folders of a data set.

use super::DataSource;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Value of `data.client` for folders: the folder above the class, `train/CLIENT/CLASS/*`.
pub const ABOVE: &str = "folder";

/// Columns, arrays or folders of a data set.
#[derive(Default, Keys)]
#[keys(given(source: DataSource), check = section.check(table, source))]
pub(in crate::scenario) struct DataColumns {
    /// Numbers per row.
    #[key(when = source == DataSource::Table, example = 768, at_least = 1.0, at_most = 1e6)]
    pub width: Option<u32>,
    /// Channels, height and width of every image.
    #[key(when = source == DataSource::Arrays, example = [3, 32, 32], at_least = 1.0, at_most = 1e5)]
    pub shape: Option<[u32; 3]>,
    /// Column or array of the images or rows.
    #[key(when = input_of(source).is_some(), default = input_of(source).unwrap_or_default().to_owned())]
    pub input: Option<String>,
    /// Column or array of the classes.
    #[key(when = input.is_some(), default = LABEL.to_owned())]
    pub label: Option<String>,
    /// Column or array with the owner of a sample; for a folder "folder", the one above the class.
    #[key(when = input.is_some() || source == DataSource::Folder)]
    pub client: Option<String>,
}

/// Default name of the column or array of the classes.
const LABEL: &str = "label";

/// Returns the default name of the images or rows, if the source has named columns.
fn input_of(source: DataSource) -> Option<&'static str> {
    match source {
        DataSource::Table => Some("features"),
        DataSource::Parquet | DataSource::Arrays => Some("image"),
        _ => None,
    }
}

impl DataColumns {
    /// Returns the default columns of a source.
    pub fn of(source: DataSource) -> DataColumns {
        let input = input_of(source).map(str::to_owned);
        let label = input.is_some().then(|| LABEL.to_owned());
        DataColumns { input, label, ..DataColumns::default() }
    }

    fn check(&self, table: &mut TableReader<'_>, source: DataSource) {
        let condition = format!("source = \"{}\"", source.word());
        table.foreign(&["width", "shape", "input", "label", "client"], &condition);
        let named = self.client.as_ref().is_some_and(|client| client != ABOVE);
        if named && source == DataSource::Folder {
            table.reject(
                "client",
                "image files have no columns",
                "not a column",
                "write `client = \"folder\"`: the folder above that of the class, train/CLIENT/CLASS/*",
            );
        }
    }
}
