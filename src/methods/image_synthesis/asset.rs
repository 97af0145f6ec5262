//! Images as an asset: its shape, and reading it from downloads and saved servers.

use std::sync::Arc;

use crate::learning::inversion::ImagePool;
use crate::policy::{
    Asset, AssetSpec, ExchangeFacts, GeneratedImages, ImageRequest, Message, PolicyError,
};
use crate::wire::{
    Body, BodyShape, Dtype, Kind, NamedTensor, Section, SectionShape, TensorShape, TensorValues,
    WireError,
};

/// Name of the asset and of its tensor.
const IMAGES: &str = "images";
/// Tensor of a saved server: the task at whose end the images were generated.
pub(in crate::methods) const IMAGES_TASK: &str = "images_task";

/// Returns the asset of images that were generated at the end of task `task`, with that version.
///
/// # Errors
/// When the pool's bytes do not fill the shape, which does not happen.
pub(in crate::methods) fn image_asset(
    task: u32,
    shape: [usize; 3],
    pool: &ImagePool,
) -> Result<Arc<Asset>, WireError> {
    let bytes = TensorValues::U8(pool.bytes().into());
    let shape = [&[pool.len()], &shape[..]].concat();
    let tensor = NamedTensor::new(IMAGES, shape, bytes)?;
    Ok(asset(task, vec![Section::new(Kind::SyntheticData, vec![tensor])]))
}

fn asset(task: u32, sections: Vec<Section>) -> Arc<Asset> {
    let body = Body::new(Vec::new(), sections);
    Arc::new(Asset::new(IMAGES, task, Kind::SyntheticData, body))
}

/// Returns the asset of images in a saved server; `task` returns its version.
///
/// # Errors
/// When `task` fails.
pub(in crate::methods) fn image_sections(
    saved: &Body,
    task: impl FnOnce() -> Result<u32, WireError>,
) -> Result<Option<Arc<Asset>>, WireError> {
    let own = |section: &&Section| section.kind == Kind::SyntheticData;
    let images: Vec<Section> = saved.sections.iter().filter(own).cloned().collect();
    match images.is_empty() {
        true => Ok(None),
        false => Ok(Some(asset(task()?, images))),
    }
}

/// Returns the shape of the asset that clients of a task get: images of the task before, none in the first task.
pub(in crate::methods) fn image_asset_specs(
    facts: &ExchangeFacts<'_>,
    images: usize,
    shape: [usize; 3],
) -> Vec<AssetSpec> {
    let before = facts.view.task.0.checked_sub(1);
    before.map(|before| image_asset_spec(before, images, shape)).into_iter().collect()
}

fn image_asset_spec(task: u16, images: usize, shape: [usize; 3]) -> AssetSpec {
    let shape = [&[images], &shape[..]].concat();
    let tensor = TensorShape::new(IMAGES, shape, Dtype::U8);
    let section = SectionShape::new(Kind::SyntheticData, vec![tensor]);
    let body = BodyShape::new(0, vec![section]);
    AssetSpec { name: IMAGES, version: u32::from(task), body, renewed_in: None }
}

/// Returns the images of a download as a pool of batches of size `batch`; `None` if it has none.
///
/// # Errors
/// When the tensor has another kind or shape.
pub(in crate::methods) fn received_images(
    download: &Message,
    batch: usize,
) -> Result<Option<ImagePool>, WireError> {
    let Some(asset) = download.asset(IMAGES) else { return Ok(None) };
    let (shape, bytes) = images_in(&asset.body)?;
    Ok(Some(ImagePool::of(shape, batch, bytes.to_vec())))
}

/// Returns the images of a saved server that a user requests; `None` if it has none.
///
/// # Errors
/// When the tensor has another kind or shape.
pub(in crate::methods) fn saved_images(
    saved: &Body,
    request: &ImageRequest<'_>,
) -> Result<Option<GeneratedImages>, PolicyError> {
    if saved.of_kind(Kind::SyntheticData).next().is_none() {
        return Ok(None);
    }
    let (shape, bytes) = images_in(saved)?;
    Ok(Some(GeneratedImages::spread(shape, bytes, request.count)))
}

fn images_in(body: &Body) -> Result<([usize; 3], &[u8]), WireError> {
    let tensor = body.tensor(Kind::SyntheticData, IMAGES)?;
    match (tensor.shape(), tensor.values()) {
        (&[_, channels, height, width], TensorValues::U8(bytes)) => {
            Ok(([channels, height, width], bytes))
        }
        _ => Err(WireError::Malformed("images that are no bytes `(n, c, h, w)`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_sent_saved_and_read_whole() {
        let pool = ImagePool::of([1, 2, 2], 3, (0..24).collect());
        let sent = image_asset(4, [1, 2, 2], &pool).unwrap();
        let spec = image_asset_spec(4, 6, [1, 2, 2]);
        assert!(sent.body.fills(&spec.body));
        assert_eq!((&*sent.name, sent.version, sent.kind), (spec.name, 4, Kind::SyntheticData));
        let read = image_sections(&sent.body, || Ok(4)).unwrap().expect("images");
        assert_eq!(read.digest(), sent.digest());
        let none = || -> Result<u32, WireError> { panic!("no images, no task") };
        assert!(image_sections(&Body::default(), none).unwrap().is_none());
        let download = Message { assets: vec![sent], ..Message::default() };
        assert_eq!(received_images(&download, 3).unwrap(), Some(pool));
        assert!(received_images(&Message::default(), 3).unwrap().is_none());
    }

    #[test]
    fn images_of_another_kind_are_refused() {
        let tensor = NamedTensor::f32(IMAGES, [1, 1, 1, 1], vec![0.5]).unwrap();
        let asset = asset(0, vec![Section::new(Kind::SyntheticData, vec![tensor])]);
        let download = Message { assets: vec![asset], ..Message::default() };
        assert!(received_images(&download, 1).is_err());
    }
}
