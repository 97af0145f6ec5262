//! File names of CIFAR-10 and CIFAR-100 in both versions.

/// Layout of one of the two sets.
pub(super) struct CifarLayout {
    pub name: &'static str,
    /// Versions in the order in which they are looked for.
    pub versions: [Version; 2],
    /// Number of classes that each label byte of a binary record may name; the last label is the class.
    pub labels: &'static [usize],
    /// Keys of the classes and of their names in the pickles of the Python version.
    pub keys: [&'static str; 2],
}

/// The files of a version.
pub(super) struct Version {
    /// True if its files are pickles.
    pub python: bool,
    pub folder: &'static str,
    pub train: &'static [&'static str],
    pub test: &'static [&'static str],
    pub names: &'static str,
}

pub(super) const TEN: CifarLayout = CifarLayout {
    name: "cifar-10",
    versions: [
        Version {
            python: false,
            folder: "cifar-10-batches-bin",
            train: &[
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
            ],
            test: &["test_batch.bin"],
            names: "batches.meta.txt",
        },
        Version {
            python: true,
            folder: "cifar-10-batches-py",
            train: &[
                "data_batch_1",
                "data_batch_2",
                "data_batch_3",
                "data_batch_4",
                "data_batch_5",
            ],
            test: &["test_batch"],
            names: "batches.meta",
        },
    ],
    labels: &[10],
    keys: ["labels", "label_names"],
};

pub(super) const HUNDRED: CifarLayout = CifarLayout {
    name: "cifar-100",
    versions: [
        Version {
            python: false,
            folder: "cifar-100-binary",
            train: &["train.bin"],
            test: &["test.bin"],
            names: "fine_label_names.txt",
        },
        Version {
            python: true,
            folder: "cifar-100-python",
            train: &["train"],
            test: &["test"],
            names: "meta",
        },
    ],
    labels: &[20, 100],
    keys: ["fine_labels", "fine_label_names"],
};

impl Version {
    pub fn files(&self) -> impl Iterator<Item = &'static str> {
        self.train.iter().chain(self.test).copied().chain([self.names])
    }
}

impl CifarLayout {
    pub fn classes(&self) -> usize {
        self.labels[self.labels.len() - 1]
    }

    /// Describes the files in words, for errors.
    pub fn wanted(&self) -> String {
        let [binary, python] = &self.versions;
        let list = |version: &Version| version.files().collect::<Vec<_>>().join(", ");
        format!(
            "the binary or the Python version of {} ({}; or {})",
            self.name,
            list(binary),
            list(python)
        )
    }
}
