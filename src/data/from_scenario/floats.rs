//! The note about images of floats that seem to be normalized twice.

use crate::data::{Dataset, Split};
use crate::scenario::{DataSection, Normalize};

impl Dataset {
    /// Adds a note if float images lie outside 0 to 1 and are to be normalized again.
    ///
    /// Images that a data loader has already normalized look like this.
    pub(super) fn noting_normalized_floats(mut self, section: &DataSection) -> Dataset {
        if section.train.normalize == Normalize::None && section.test.normalize == Normalize::None {
            return self;
        }
        if let Some((least, most)) =
            range(&self.train).filter(|(least, most)| *least < 0.0 || *most > 1.0)
        {
            self.notes.push(format!(
                "images are floats from {least:.3} to {most:.3}, and data.train.normalize and data.test.normalize expect 0 \
                 to 1: set both to \"none\" if the images are normalized already"
            ));
        }
        self
    }
}

/// Returns the smallest and largest value of float images; `None` for other samples.
fn range(split: &Split) -> Option<(f32, f32)> {
    let mut range: Option<(f32, f32)> = None;
    for sample in 0..split.len() {
        let image = split.float_image(sample)?;
        for value in image.pixels.iter() {
            let (least, most) = range.unwrap_or((*value, *value));
            range = Some((least.min(*value), most.max(*value)));
        }
    }
    range
}
