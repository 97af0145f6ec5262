//! `data.width`, `data.input`, `data.label` and `data.client`: which columns, arrays or folders hold what.

use super::DataSource;
use crate::scenario::reader::{Choice, Param, TableReader};

/// What `data.client` says of a folder: the folder above that of the class, `train/CLIENT/CLASS/*`.
pub const ABOVE: &str = "folder";

/// Which columns, arrays or folders hold what.
#[derive(Default)]
pub(in crate::scenario) struct Columns {
    pub width: Option<u32>,
    pub input: Option<String>,
    pub label: Option<String>,
    pub client: Option<String>,
}

/// The default names.
const IMAGE: &str = "image";
const FEATURES: &str = "features";
const LABEL: &str = "label";

impl Columns {
    /// Those of a source where nobody names any.
    pub fn of(source: DataSource) -> Columns {
        let input = match source {
            DataSource::Table => FEATURES,
            DataSource::Parquet => IMAGE,
            _ => return Columns::default(),
        };
        let name = |name: &str| Some(name.to_owned());
        Columns { input: name(input), label: name(LABEL), ..Columns::default() }
    }

    /// Those of this source, as they are written.
    pub fn read(table: &mut TableReader<'_>, source: DataSource) -> Columns {
        let beside = format!("source = \"{}\"", source.word());
        let doc = "column or array of the images or rows";
        let input = |default: &str| Param::new("input", default.to_owned(), doc);
        let label = Param::new("label", LABEL.to_owned(), "column or array of the classes");
        let client = "column or array that says whose a sample is; of a folder \"folder\", the one above the class";
        let client = Param::unset("client", client);
        let width = Param::required("width", 768, "numbers in a row");
        match source {
            DataSource::Table => Columns {
                width: Some(table.get(&width.at_least(1.0).at_most(1e6))),
                input: Some(table.get(&input(FEATURES))),
                label: Some(table.get(&label)),
                client: table.optional(&client),
            },
            DataSource::Parquet => {
                table.foreign(&["width"], &beside);
                Columns {
                    width: None,
                    input: Some(table.get(&input(IMAGE))),
                    label: Some(table.get(&label)),
                    client: table.optional(&client),
                }
            }
            DataSource::Folder => {
                table.foreign(&["width", "input", "label"], &beside);
                let client: Option<String> = table.optional(&client);
                if client.as_ref().is_some_and(|client| client != ABOVE) {
                    table.reject(
                        "client",
                        "image files have no columns",
                        "not a column",
                        "write `client = \"folder\"`: the folder above that of the class, train/CLIENT/CLASS/*",
                    );
                }
                Columns { client, ..Columns::default() }
            }
            _ => {
                table.foreign(&["width", "input", "label", "client"], &beside);
                Columns::default()
            }
        }
    }
}
