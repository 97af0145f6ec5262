//! Published data sets as they are downloaded, recognized by the files next to their images.

mod cub;
mod domain_net;
mod tiny_imagenet;

use std::path::Path;

use super::division::Division;
use crate::data::DataError;

/// Returns the division by the files of a published data set; `None` if they are those of none. `clients` is true if
/// owners are requested.
///
/// # Errors
/// A known data set that is not whole, one in a form that is not read, or without owners where some are asked for.
pub(super) fn recognised(root: &Path, clients: bool) -> Result<Option<Division>, DataError> {
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

/// Writes the labels of Stanford Cars, which lie in Matlab's files, as a list that is read.
const CARS: &str = r#"python -c 'import json, scipy.io as m; n = m.loadmat("devkit/cars_meta.mat", squeeze_me=True)["class_names"]; part = lambda d, f: [[d + "/" + str(a["fname"]), int(a["class"]) - 1, str(n[int(a["class"]) - 1])] for a in m.loadmat(f, squeeze_me=True)["annotations"]]; json.dump({"train": part("cars_train", "devkit/cars_train_annos.mat"), "test": part("cars_test", "cars_test_annos_withlabels.mat")}, open("cars.json", "w"))'"#;

/// Stanford Cars as it was published.
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

/// Labels that only Matlab's files have, such as those of Flowers-102.
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
