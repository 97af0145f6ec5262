//! Parts of LANDER and TARGET: images that a server generates as a task ends, and their replay at clients.
//!
//! * [`ImageSynthesis`]: keys of the generator, its loss and the student that is its adversary;
//! * `asset`: images as bytes, an asset of the next task;
//! * `replay`: at a client, the asset's images and the model for which they were generated.

mod asset;
mod keys;
mod replay;
#[cfg(test)]
pub(super) mod testing;

pub(super) use self::asset::{
    IMAGES_TASK, image_asset, image_asset_specs, image_sections, received_images, saved_images,
};
pub use self::keys::ImageSynthesis;
pub(super) use self::replay::{OldModelReplay, old_rows_distilled, replay_work, sample_channels};
