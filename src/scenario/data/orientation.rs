//! `data.orientation`: rotation of photographs that were taken with a tilted camera.

use clap::ValueEnum;
use serde::Serialize;

use super::DataSource;
use crate::scenario::reader::{Choice, Param, TableReader};

/// Treatment of the orientation that a camera notes in an image file instead of turning the pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Orientation {
    /// Rotated and mirrored by the EXIF data, as `datasets` of Hugging Face does.
    Exif,
    /// Pixels as stored in the file, as torchvision's `ImageFolder` reads them.
    #[default]
    Ignored,
}

impl Orientation {
    /// Returns the treatment by the usual reader of a source; `None` for sources without image files.
    pub fn of(source: DataSource) -> Option<Orientation> {
        match source {
            DataSource::Parquet => Some(Orientation::Exif),
            DataSource::Folder => Some(Orientation::Ignored),
            _ => None,
        }
    }

    pub(super) fn read(table: &mut TableReader<'_>, source: DataSource) -> Option<Orientation> {
        let Some(default) = Orientation::of(source) else {
            table.foreign(&["orientation"], &format!("source = \"{}\"", source.word()));
            return None;
        };
        let doc = "rotation of images by their EXIF data; default: \"exif\" for parquet, \"ignored\" for folder";
        Some(table.get(&Param::new("orientation", default, doc)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::{AnyMethod, DataSection, Scenario};

    fn read(data: &str) -> Result<DataSection, String> {
        let text = format!(
            "schema = 2\ntasks = {{ count = 2 }}\npartition = {{ kind = \"iid\" }}\nmethod = {{ name = \"fedavg\" }}\n\
             backbone = {{ kind = \"pixels\" }}\n[data]\n{data}\n"
        );
        let read = Scenario::from_toml(&text, "example", Path::new("/"), &[], &AnyMethod);
        read.map(|loaded| loaded.scenario.data).map_err(|error| error.to_string())
    }

    #[test]
    fn sources_are_read_as_their_usual_readers_do() {
        let orientation = |data: &str| read(data).unwrap().orientation;
        let of = |source: &str| format!("source = \"{source}\"\npath = \"p\"");
        assert_eq!(orientation(&of("parquet")), Some(Orientation::Exif));
        assert_eq!(orientation(&of("folder")), Some(Orientation::Ignored));
        assert_eq!(orientation(&of("idx")), None);
        let turned = format!("{}\norientation = \"exif\"", of("folder"));
        assert_eq!(orientation(&turned), Some(Orientation::Exif));
        let error = read("source = \"digits\"\norientation = \"exif\"").unwrap_err();
        assert!(error.contains("orientation"), "{error}");
    }

    #[test]
    fn an_auxiliary_set_of_another_source_has_its_own() {
        let other = |own: &str, other: &str| {
            let text = format!("{own}\nauxiliary = {{ source = \"{other}\", path = \"a\" }}");
            let data = read(&text).unwrap();
            data.auxiliary.as_ref().unwrap().as_data(&data).unwrap().orientation
        };
        let folder = "source = \"folder\"\npath = \"p\"\norientation = \"exif\"";
        assert_eq!(other(folder, "folder"), Some(Orientation::Exif));
        let parquet = "source = \"parquet\"\npath = \"p\"\norientation = \"ignored\"";
        assert_eq!(other(parquet, "folder"), Some(Orientation::Ignored));
        assert_eq!(other(folder, "parquet"), Some(Orientation::Exif));
        assert_eq!(other(folder, "idx"), None);
    }
}
