//! What FedHAF sends: module and head down and up, and once per task the model as the previous task left it.

use std::sync::Arc;

use crate::methods::fedavg;
use crate::model::ParameterSet;
use crate::policy::{
    Asset, AssetSketch, Message, parameter_sections, parameter_sketches, parameters_of,
};
use crate::quantity::TaskId;
use crate::wire::{Body, BodySketch, Kind, WireError};

/// Name of the asset that holds the previous task's model.
const PREVIOUS: &str = "previous";

/// Server to client.
#[derive(Clone, Debug)]
pub struct Down {
    /// Module and head as they are.
    pub current: fedavg::Down,
    /// As the previous task left them, to distil from; named here, shipped to whoever lacks it.
    pub previous: Option<Arc<Asset>>,
}

/// The model at the end of `task` as an asset.
pub(super) fn previous(task: TaskId, parameters: &ParameterSet) -> Arc<Asset> {
    let body = Body::new(Vec::new(), parameter_sections(parameters));
    Arc::new(Asset::new(PREVIOUS, u32::from(task.0), Kind::Weights, body))
}

/// Its shape: parameters of these shapes, as `task` left them.
pub(super) fn previous_sketch(task: TaskId, shapes: &[(String, Vec<usize>)]) -> AssetSketch {
    let body = BodySketch::new(0, parameter_sketches(shapes));
    AssetSketch { name: PREVIOUS, version: u32::from(task.0), body }
}

/// Bytes of the digest by which a Down names the previous model.
const DIGEST_BYTES: usize = 8;

impl Down {
    /// The previous model's parameters.
    ///
    /// # Errors
    /// An asset that holds something else.
    pub fn previous_parameters(&self) -> Result<Option<ParameterSet>, WireError> {
        self.previous.as_ref().map(|asset| parameters_of(&asset.body)).transpose()
    }

    /// Its shape, with parameters of these shapes; `names` tells whether it names a previous model.
    pub fn sketch(shapes: &[(String, Vec<usize>)], names: bool) -> BodySketch {
        let meta = if names { DIGEST_BYTES } else { 0 };
        BodySketch::new(meta, parameter_sketches(shapes))
    }
}

impl Message for Down {
    fn pack(&self) -> Body {
        let named = self.previous.iter().flat_map(|asset| asset.digest().to_le_bytes());
        Body::new(named.collect(), parameter_sections(&self.current.parameters))
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        Down::unpack_with(body, &[])
    }

    fn unpack_with(body: &Body, assets: &[Arc<Asset>]) -> Result<Self, WireError> {
        let previous = match *body.meta.as_slice() {
            [] => None,
            ref named => {
                let of = |asset: &&Arc<Asset>| asset.digest().to_le_bytes() == *named;
                let found = assets.iter().find(of).ok_or_else(|| {
                    WireError::Malformed("a Down names a previous model nobody has".to_owned())
                })?;
                Some(Arc::clone(found))
            }
        };
        Ok(Down { current: fedavg::Down { parameters: parameters_of(body)? }, previous })
    }

    fn assets(&self) -> Vec<Arc<Asset>> {
        self.previous.iter().cloned().collect()
    }
}
