//! Progress display while many images are decoded. It shows the memory that they will take.
//!
//! A library is silent: nothing is shown until a program asks with [`show_loading`].

use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::quantity::Bytes;

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Number of images up to which decoding is not displayed.
const MANY: usize = 2_000;

/// Sets whether the decoding of many images is shown on stderr from now on. It changes no result.
pub fn show_loading(shown: bool) {
    SHOWN.store(shown, Ordering::Relaxed);
}

/// Progress bar of the images that are being decoded.
pub(super) struct DecodingProgress(Option<ProgressBar>);

impl DecodingProgress {
    /// Starts the display, which names the number of images and their memory. With `None` images stay in their files.
    pub fn begin(images: usize, bytes: Option<usize>) -> DecodingProgress {
        if images < MANY || !SHOWN.load(Ordering::Relaxed) {
            return DecodingProgress(None);
        }
        let Some(bytes) = bytes else {
            say(&format!(
                "{images} images stay on the disk and are decoded whenever they are read"
            ));
            return DecodingProgress(None);
        };
        say(&format!("decoding {images} images, {} of memory", Bytes(bytes as u64)));
        let bar = ProgressBar::new(images as u64);
        let style = ProgressStyle::with_template("{pos}/{len} images  {wide_bar}  {eta} left");
        DecodingProgress(Some(style.map_or(bar.clone(), |style| bar.with_style(style))))
    }

    /// Counts one more decoded image.
    pub fn one(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

impl Drop for DecodingProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn say(line: &str) {
    use std::io::Write;
    // If even this fails, there is no way left to report it.
    let _ = writeln!(std::io::stderr(), "{line}");
}
