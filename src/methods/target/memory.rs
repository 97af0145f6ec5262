//! Memory of TARGET's server: the images generated at the end of the last task, as an asset for clients.

use std::sync::Arc;

use crate::methods::averaging::ServerState;
use crate::methods::image_synthesis::{IMAGES_TASK, image_sections};
use crate::policy::Asset;
use crate::wire::{Body, Kind, NamedTensor, Saved, Section, WireError};

/// Generated images; there are none before the end of the first task.
#[derive(Clone, Debug, Default)]
pub struct TargetMemory {
    /// Asset with the images, which clients get once per task.
    pub(super) images: Option<Arc<Asset>>,
}

impl ServerState for TargetMemory {}

impl Saved for TargetMemory {
    fn save(&self) -> Body {
        let Some(asset) = &self.images else { return Body::default() };
        let task = NamedTensor::u32(IMAGES_TASK, [], vec![asset.version]).expect("a single number");
        let mut sections = asset.body.sections.clone();
        sections.push(Section::new(Kind::Settings, vec![task]));
        Body::new(Vec::new(), sections)
    }

    fn load(saved: &Body) -> Result<TargetMemory, WireError> {
        let cut = || WireError::Malformed("saved images without their task".to_owned());
        let task = || -> Result<u32, WireError> {
            let task = saved.tensor(Kind::Settings, IMAGES_TASK)?.as_u32()?;
            task.first().copied().ok_or_else(cut)
        };
        Ok(TargetMemory { images: image_sections(saved, task)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::inversion::ImagePool;
    use crate::methods::image_synthesis::image_asset;

    #[test]
    fn images_are_saved_and_loaded_whole() {
        let mut memory = TargetMemory::default();
        assert_eq!(memory.save().digest(), Body::default().digest());
        let pool = ImagePool::of([1, 2, 2], 1, (0..24).collect());
        memory.images = Some(image_asset(3, [1, 2, 2], &pool).unwrap());
        let saved = memory.save();
        let loaded = TargetMemory::load(&saved).unwrap();
        assert_eq!(loaded.save().digest(), saved.digest());
        let (kept, sent) = (loaded.images.unwrap(), memory.images.unwrap());
        assert_eq!((kept.version, kept.digest()), (3, sent.digest()));
        let cut = Body::new(Vec::new(), saved.sections[..1].to_vec());
        assert!(TargetMemory::load(&cut).is_err());
    }
}
