//! Data sets as they are downloaded, recognised by the files beside their images.

mod cub;
mod domain_net;
mod tiny_imagenet;

use std::path::Path;

use super::division::Division;
use crate::data::DataError;

/// The division that the files of a published data set give; `None` where they are those of none.
///
/// # Errors
/// A known data set that is not whole, or one in a form that is not read.
pub(super) fn recognised(root: &Path) -> Result<Option<Division>, DataError> {
    if tiny_imagenet::is_at(root) {
        return tiny_imagenet::read(root).map(Some);
    }
    if cub::is_at(root) {
        return cub::read(root).map(Some);
    }
    refuse_matlab(root)?;
    match root.join("train").is_dir() {
        true => Ok(None),
        false => domain_net::read(root),
    }
}

/// Labels that only Matlab's files have, such as those of Stanford Cars and Flowers-102.
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
    })
}
