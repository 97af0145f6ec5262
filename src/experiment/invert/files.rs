//! Files of an inversion.

use std::fmt::Write as _;
use std::path::Path;

use super::{Inversion, Reconstruction, picture};
use crate::experiment::directory_error::DirectoryError;
use crate::experiment::write_atomically;

/// Writes `inversion.csv` and `inversion.png` to a folder, which is created.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn write_inversion(folder: &Path, inversion: &Inversion) -> Result<(), DirectoryError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| DirectoryError::Write { path: folder.to_owned(), source })?;
    write_atomically(&folder.join("inversion.csv"), table(inversion).as_bytes())?;
    let path = folder.join("inversion.png");
    let picture = picture(inversion).map_err(|error| DirectoryError::Write {
        path: path.clone(),
        source: std::io::Error::other(error),
    })?;
    write_atomically(&path, &picture)
}

/// Returns the table: a row per image that was looked for. `sample` is empty for the upload.
fn table(inversion: &Inversion) -> String {
    let Inversion { client, task, class, samples, originals, of_features, of_upload, .. } =
        inversion;
    let mut text = "client,task,class,samples,source,sample,first_loss,loss,psnr,ssim\n".to_owned();
    let mut line = |source: &str, sample: &str, found: &Reconstruction| {
        let Reconstruction { first_loss, loss, psnr, ssim, .. } = found;
        // A string takes everything.
        let _ = writeln!(
            text,
            "{client},{task},{class},{samples},{source},{sample},{first_loss},{loss},{psnr},{ssim}"
        );
    };
    for (original, found) in originals.iter().zip(of_features) {
        line("features", &original.sample.to_string(), found);
    }
    line("upload", "", of_upload);
    text
}
