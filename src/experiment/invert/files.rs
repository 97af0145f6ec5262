//! Files of an inversion.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Inversion, InversionRecord, Reconstruction, picture};
use crate::experiment::directory_error::DirectoryError;
use crate::experiment::picture::single;
use crate::experiment::write_atomically;
use crate::files::{FileKind, read_text};

/// Record in the folder of an inversion.
pub const INVERSION_RECORD: &str = "inversion.json";

/// Version of the record; it counts changes of keys and their meanings.
const FORMAT: u32 = 1;

/// File of the table.
const TABLE: &str = "inversion.csv";

/// File of the sheet of all images.
const SHEET: &str = "inversion.png";

/// Record as it is in its file.
#[derive(Serialize, Deserialize)]
struct RecordFile<R> {
    format: u32,
    #[serde(flatten)]
    record: R,
}

/// Picture of a single image in the folder of an inversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InversionPicture {
    /// Client's image, by its index in the training split.
    Original(u32),
    /// Image found by the features of that sample.
    Features(u32),
    /// Image found by the upload.
    Upload,
}

impl InversionPicture {
    /// Returns the name of the file.
    pub fn file(self) -> String {
        match self {
            InversionPicture::Original(sample) => format!("original-{sample}.png"),
            InversionPicture::Features(sample) => format!("features-{sample}.png"),
            InversionPicture::Upload => "upload.png".to_owned(),
        }
    }

    /// Returns true if a file of this name is a picture of some inversion.
    fn is_file(name: &str) -> bool {
        let Some(name) = name.strip_suffix(".png") else { return false };
        let number = name.strip_prefix("original-").or_else(|| name.strip_prefix("features-"));
        name == "upload" || number.is_some_and(|number| number.parse::<u32>().is_ok())
    }
}

/// Reads the record of the inversion in a folder. `None` if it has none of this format.
///
/// # Errors
/// Returns an error if the record cannot be read.
pub fn read_inversion(folder: &Path) -> io::Result<Option<InversionRecord>> {
    let text = match read_text(&folder.join(INVERSION_RECORD), FileKind::Manifest) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let of_format = |file: RecordFile<serde_json::Value>| file.format == FORMAT;
    if !serde_json::from_str(&text).is_ok_and(of_format) {
        return Ok(None);
    }
    let file: RecordFile<InversionRecord> = serde_json::from_str(&text)?;
    Ok(Some(file.record))
}

/// Returns true if a folder has results of an inversion, or pictures of their names.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub fn has_inversion(folder: &Path) -> io::Result<bool> {
    if !folder.exists() {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        let is_result = |name: &str| {
            [INVERSION_RECORD, TABLE, SHEET].contains(&name) || InversionPicture::is_file(name)
        };
        if entry?.file_name().to_str().is_some_and(is_result) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the results of an inversion to a folder, which is created: the record, a table, a sheet of all images, and a
/// picture of each. Pictures of an earlier inversion are removed.
///
/// # Errors
/// Returns an error if the folder or a file cannot be written.
pub fn write_inversion(
    folder: &Path,
    inversion: &Inversion,
    record: &InversionRecord,
) -> Result<(), DirectoryError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DirectoryError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        let earlier = |name: &str| name == INVERSION_RECORD || InversionPicture::is_file(name);
        if entry.file_name().to_str().is_some_and(earlier) {
            fs::remove_file(entry.path()).map_err(failed(&entry.path()))?;
        }
    }
    write_atomically(&folder.join(TABLE), table(inversion).as_bytes())?;
    let write = |name: &str, picture: Result<Vec<u8>, image::ImageError>| {
        let path = folder.join(name);
        let bytes = picture.map_err(io::Error::other).map_err(failed(&path))?;
        write_atomically(&path, &bytes)
    };
    write(SHEET, picture(inversion))?;
    let one =
        |of: InversionPicture, pixels: &[f32]| write(&of.file(), single(pixels, inversion.shape));
    for (original, found) in inversion.originals.iter().zip(&inversion.of_features) {
        one(InversionPicture::Original(original.sample), &original.pixels)?;
        one(InversionPicture::Features(original.sample), &found.pixels)?;
    }
    one(InversionPicture::Upload, &inversion.of_upload.pixels)?;
    let path = folder.join(INVERSION_RECORD);
    let file = RecordFile { format: FORMAT, record };
    let text = serde_json::to_string_pretty(&file).map_err(|error| failed(&path)(error.into()))?;
    write_atomically(&path, format!("{text}\n").as_bytes())
}

/// Returns the table: a row per image that was looked for. `sample` is empty for the upload.
fn table(inversion: &Inversion) -> String {
    let Inversion { client, task, class, samples, originals, of_features, of_upload, .. } =
        inversion;
    let mut text =
        "client,task,class,samples,source,sample,first_loss,loss,psnr,ssim,lpips\n".to_owned();
    let mut line = |source: &str, sample: &str, found: &Reconstruction| {
        let Reconstruction { first_loss, loss, psnr, ssim, lpips, .. } = found;
        let lpips = lpips.map_or(String::new(), |lpips| lpips.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{client},{task},{class},{samples},{source},{sample},{first_loss},{loss},{psnr},{ssim},{lpips}"
        );
    };
    for (original, found) in originals.iter().zip(of_features) {
        line("features", &original.sample.to_string(), found);
    }
    line("upload", "", of_upload);
    text
}
