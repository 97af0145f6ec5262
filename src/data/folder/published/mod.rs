//! Published data sets as they are downloaded, recognized by the files next to their images.

mod cub;
mod domain_net;
mod tiny_imagenet;

use std::path::Path;

use super::division::Division;
use crate::data::DataError;

/// Returns the division of a published data set; `None` if no known one is recognized. `clients` is true if owners are
/// requested.
///
/// # Errors
/// Returns an error if a known data set is incomplete, has a form that is not read, or has no owners although they are
/// requested.
pub(super) fn recognized(root: &Path, clients: bool) -> Result<Option<Division>, DataError> {
    let known = [("Tiny-ImageNet", tiny_imagenet::is_at(root)), ("CUB-200-2011", cub::is_at(root))];
    if let Some((name, _)) = known.iter().find(|(_, is_there)| clients && *is_there) {
        return Err(DataError::unfit(
            format!("{}: {name} does not say whose an image is", root.display()),
            "remove data.client, and divide the images with partition.kind",
        ));
    }
    if tiny_imagenet::is_at(root) {
        return tiny_imagenet::read(root).map(Some);
    }
    if cub::is_at(root) {
        return cub::read(root).map(Some);
    }
    refuse_cars(root)?;
    refuse_matlab(root)?;
    match root.join("train").is_dir() {
        true => Ok(None),
        false => domain_net::read(root),
    }
}

/// Command that converts the labels of Stanford Cars from Matlab files to a list in JSON.
const CARS: &str = r#"python -c 'import json, scipy.io as m; n = m.loadmat("devkit/cars_meta.mat", squeeze_me=True)["class_names"]; part = lambda d, f: [[d + "/" + str(a["fname"]), int(a["class"]) - 1, str(n[int(a["class"]) - 1])] for a in m.loadmat(f, squeeze_me=True)["annotations"]]; json.dump({"train": part("cars_train", "devkit/cars_train_annos.mat"), "test": part("cars_test", "cars_test_annos_withlabels.mat")}, open("cars.json", "w"))'"#;

/// Returns an error for Stanford Cars as published, whose labels are Matlab files.
fn refuse_cars(root: &Path) -> Result<(), DataError> {
    let annotations = root.join("devkit/cars_train_annos.mat");
    if !(annotations.is_file() && root.join("cars_train").is_dir()) {
        return Ok(());
    }
    Err(DataError::Unfit {
        what: format!("{}: Matlab's files are not read", annotations.display()),
        advice: format!(
            "write them as a list, in this folder and where SciPy is, and name it: data.split = {{ list = \"cars.json\" }} (a \
             path from the scenario)\n  {CARS}"
        ),
        key: None,
    })
}

/// Returns an error for data whose labels are only in Matlab files, such as Flowers-102.
fn refuse_matlab(root: &Path) -> Result<(), DataError> {
    const FILES: [&str; 5] = [
        "cars_annos.mat",
        "devkit/cars_train_annos.mat",
        "cars_train_annos.mat",
        "imagelabels.mat",
        "setid.mat",
    ];
    let Some(file) = FILES.iter().map(|name| root.join(name)).find(|file| file.is_file()) else {
        return Ok(());
    };
    Err(DataError::Unfit {
        what: format!("{}: Matlab's files are not read", file.display()),
        advice: "write the lists of both parts as text, a line `PATH CLASS` per image, and name them in data.split = \
                 { train = \"train.txt\", test = \"test.txt\" } (scipy.io.loadmat reads the file), or sort the images \
                 into train/CLASS/ and test/CLASS/"
            .to_owned(),
        key: None,
    })
}
