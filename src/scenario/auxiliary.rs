//! `[data.auxiliary]`: samples that belong to no client and to no task.

use std::path::PathBuf;

use serde::Serialize;

use super::data::DataColumns;
use super::reader::{Keys, TableReader};
use super::{DataSection, DataSource, FolderLayout, Orientation};

/// Unlabeled samples for distillation: a fraction of the data set that no client gets, or another data set.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(own: DataSource), check = section.check(table, own))]
pub struct AuxiliarySection {
    /// Data set whose training samples are used without labels; default: the run's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<DataSource>,
    /// Folder or .tar.gz of the other data set, relative to this file.
    ///
    /// As in `[data]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Fraction of the training samples of every class that no client gets; without `source`.
    #[key(above = 0.0, below = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Samples kept of every class of the other data set; default: all.
    #[key(at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<u32>,
    /// Number of samples of the other data set, for plans while its files are absent.
    ///
    /// Known for digits and CIFAR.
    #[key(at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
    /// Number of shards; default: one per client. Client `k` gets shard `k` modulo this number.
    #[key(at_least = 1.0, at_most = 1e6)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// One shard for the server, in addition to those of clients.
    #[key(default = false)]
    pub server: bool,
}

impl AuxiliarySection {
    fn check(&self, table: &mut TableReader<'_>, own: DataSource) {
        match (self.source, self.fraction) {
            (None, None) => {
                let help = "add `fraction = 0.1`: a tenth of every class, or `source = \"...\"`";
                table.reject("parts", "`fraction` or `source` is missing", "which?", help);
            }
            (Some(_), Some(_)) => table.reject(
                "fraction",
                "`fraction` takes samples of the run's own data, but `source` names another set",
                "contradicts `source`",
                "remove `fraction`, or `source` and `path`",
            ),
            _ => {}
        }
        if self.source == Some(DataSource::Synthetic) {
            let help = "take them from the run's own synthetic data: `fraction = 0.1`";
            table.reject("source", "synthetic data are no auxiliary set", "not here", help);
        }
        let text = |source: DataSource| source == DataSource::Play;
        if self.source.is_some_and(|source| text(source) != text(own)) {
            let help = "name a data set of the same kind as `data.source`";
            table.reject(
                "source",
                "the auxiliary data and the run's data must both be images or both be text",
                "of another kind",
                help,
            );
        }
        let rows = DataSource::is_rows;
        if self.source.is_some_and(|source| rows(source) != rows(own)) {
            let help = "name a data set of the same kind as `data.source`";
            table.reject(
                "source",
                "the auxiliary data and the run's data must both be images or both be tables",
                "of another kind",
                help,
            );
        }
        let needs_path = self.source.is_some_and(|source| !source.is_built_in());
        if needs_path != self.path.is_some() {
            let (message, help) = match needs_path {
                true => ("the auxiliary data set needs a path", "add `path = \"...\"`"),
                false => ("no file is read here", "remove `path`"),
            };
            let key = if needs_path { "source" } else { "path" };
            table.reject(key, message, "with `path`", help);
        }
    }

    /// Returns `[data]` with this set in place of the run's own, without its division and column names. Rows of a table
    /// are as wide as those of the run, because one head reads both.
    pub fn as_data(&self, data: &DataSection) -> Option<DataSection> {
        let source = self.source?;
        let columns = DataColumns::of(source);
        let (path, subset) = (self.path.clone(), self.subset);
        let alike = data.orientation.filter(|_| source == data.source);
        Some(DataSection {
            source,
            path,
            subset,
            test_subset: None,
            validation_fraction: None,
            nominal: None,
            auxiliary: None,
            split: None,
            test_fraction: None,
            layout: FolderLayout::Classes,
            orientation: alike.or(Orientation::of(source)),
            width: (source == DataSource::Table).then(|| data.channels()),
            // Its images have the shape of the run's.
            shape: data.image_shape().filter(|_| source == DataSource::Arrays),
            synthetic: None,
            input: columns.input,
            label: columns.label,
            client: None,
            ..data.clone()
        })
    }

    /// Returns the samples per class of the run's own data that no client gets. The fraction is rounded down, at least
    /// one.
    pub fn of_class(&self, samples: usize) -> usize {
        let of = |share: f64| {
            crate::numerics::share::floor(share * samples as f64)
                .max(1)
                .min(samples.saturating_sub(1))
        };
        self.fraction.map_or(0, of)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::{AnyMethod, Scenario};

    fn read(data: &str, backbone: &str) -> Result<Scenario, String> {
        let text = format!(
            "schema = 2\ntasks = {{ count = 2 }}\npartition = {{ kind = \"iid\" }}\nmethod = {{ name = \"fedavg\" }}\n\
             {backbone}\n[data]\n{data}\n"
        );
        let read = Scenario::from_toml(&text, "example", Path::new("/"), &[], &AnyMethod);
        read.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
    }

    const ROWS: &str = "backbone = { kind = \"pixels\" }";

    #[test]
    fn how_the_own_set_is_divided_says_nothing_of_another() {
        let own = "source = \"parquet\"\npath = \"own\"\ntest_fraction = 0.2\ninput = \"img\"\nlabel = \"fine\"\n\
                   client = \"user\"\nstored_size = 8";
        let digits = format!("{own}\nauxiliary = {{ source = \"digits\" }}");
        let packed = format!("{own}\nauxiliary = {{ source = \"parquet\", path = \"a\" }}");
        for (text, input) in [(digits, None), (packed, Some("image"))] {
            let data = read(&text, "").unwrap().data;
            let other = data.auxiliary.as_ref().unwrap().as_data(&data).unwrap();
            assert_eq!((other.test_fraction, other.client, other.width), (None, None, None));
            assert_eq!(other.input.as_deref(), input);
            assert_eq!(other.label.as_deref(), input.map(|_| "label"));
        }
    }

    #[test]
    fn hash_counts_no_folder_of_another_set() {
        let at = |path: &str| {
            let data = format!(
                "source = \"digits\"\nauxiliary = {{ source = \"cifar100\", path = \"{path}\" }}"
            );
            read(&data, "").unwrap().hash()
        };
        assert_eq!(at("/one/cifar"), at("/two/cifar"));
        assert_ne!(at("/one/cifar"), at("/one/other"));
        assert_ne!(at("hf:datasets/a/set"), at("hf:datasets/b/set"));
    }

    #[test]
    fn rows_go_with_rows_of_their_width() {
        let own = "source = \"table\"\npath = \"own\"\nwidth = 8\ninput = \"x\"\nnominal = { classes = 4, train = 8, test = 4 }";
        let data =
            read(&format!("{own}\nauxiliary = {{ source = \"table\", path = \"a\" }}"), ROWS);
        let data = data.unwrap().data;
        let other = data.auxiliary.as_ref().unwrap().as_data(&data).unwrap();
        assert_eq!((other.width, other.input.as_deref()), (Some(8), Some("features")));
        let error = read(&format!("{own}\nauxiliary = {{ source = \"digits\" }}"), ROWS);
        assert!(error.unwrap_err().contains("must both be images or both be tables"));
        let own = "source = \"digits\"\nauxiliary = { source = \"table\", path = \"a\" }";
        assert!(read(own, "").unwrap_err().contains("must both be images or both be tables"));
    }

    #[test]
    fn a_stored_size_is_for_image_files() {
        for source in ["source = \"digits\"", "source = \"idx\"\npath = \"m\""] {
            let error = read(&format!("{source}\nstored_size = 32"), "").unwrap_err();
            assert!(error.contains("`data.stored_size` is for image files"), "{error}");
            assert!(
                !read(&format!("{source}\nstored_size = 224"), "")
                    .is_err_and(|e| e.contains("stored_size"))
            );
        }
    }
}
