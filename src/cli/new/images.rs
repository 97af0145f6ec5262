//! Counts of classes and images in a folder of images.

use std::path::{Path, PathBuf};

/// Counts of classes and images in a folder of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Images {
    /// True if the folder has a test part, or cannot be read.
    pub divided: bool,
    pub classes: usize,
    pub train: usize,
    pub test: usize,
}

/// File extensions of image formats that are read.
const READ: [&str; 5] = ["png", "jpg", "jpeg", "bmp", "webp"];

impl Images {
    pub fn of(path: &Path) -> Images {
        let count = |folder: &Path| {
            let classes: Vec<usize> = folders(folder).iter().map(|class| images(class)).collect();
            (classes.len(), classes.iter().sum::<usize>())
        };
        // A folder of images is a class, whatever it is called.
        let train = path.join("train");
        if !path.is_dir() || (!folders(&train).is_empty() && images(&train) == 0) {
            let tests = ["test", "val", "valid", "validation"].map(|name| count(&path.join(name)));
            let (classes, train) = count(&train);
            let test = tests.into_iter().map(|(_, files)| files).find(|files| *files > 0);
            let divided = !path.is_dir() || test.is_some();
            return match test {
                Some(test) => Images { divided, classes, train, test },
                None => Images { divided, ..Images::drawn(classes, train) },
            };
        }
        let (classes, all) = count(path);
        Images::drawn(classes, all)
    }

    /// Returns the counts when a fifth of all images is drawn for tests.
    fn drawn(classes: usize, all: usize) -> Images {
        let train = all * 4 / 5;
        Images { divided: false, classes, train, test: all - train }
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| !is_hidden(&entry.file_name().to_string_lossy()));
    folders.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Returns true for names that the system or archive tools create.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.starts_with("__")
}

/// Returns the number of images in a folder, without its subfolders.
fn images(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        ending.is_some_and(|ending| READ.contains(&ending.as_str())) && path.is_file()
    };
    entries.map(|entry| entry.path()).filter(read).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Images {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        Images::of(root.path())
    }

    #[test]
    fn a_class_called_train_is_no_part() {
        let vehicles = ["train/1.png", "train/2.jpg", "bus/1.png", "bus/2.png", "bus/notes.txt"];
        let found = Images { divided: false, classes: 2, train: 3, test: 1 };
        assert_eq!(of(&vehicles), found);
    }

    #[test]
    fn parts_hold_classes() {
        let parts =
            ["train/a/1.png", "train/b/1.PNG", "val/a/1.png", "val/b/1.webp", "val/.x/1.png"];
        assert_eq!(of(&parts), Images { divided: true, classes: 2, train: 2, test: 2 });
        // Nothing to test on: a share of it is drawn.
        let train =
            ["train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png", "train/b/3.png"];
        assert_eq!(of(&train), Images { divided: false, classes: 2, train: 4, test: 1 });
        let nowhere = Images::of(Path::new("/nowhere/at/all"));
        assert_eq!(nowhere, Images { divided: true, classes: 0, train: 0, test: 0 });
    }
}
