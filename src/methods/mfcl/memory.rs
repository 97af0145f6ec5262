//! Memory of MFCL's server: the generator trained at the end of the last task, as an asset for clients.

use std::sync::Arc;

use crate::methods::averaging::ServerState;
use crate::model::{ImageGeneratorConfig, Parameter, ParameterSet};
use crate::policy::{Asset, AssetSpec, Message};
use crate::quantity::TaskId;
use crate::wire::{
    Body, BodyShape, Dtype, Kind, NamedTensor, Saved, Section, SectionShape, TensorShape, WireError,
};

/// Name of the generator's asset.
const GENERATOR: &str = "generator";
/// Tensor of a saved memory: the task at whose end the generator was trained.
const TASK: &str = "generator_task";

/// Generator of old images; there is none before the end of the first task.
#[derive(Clone, Debug, Default)]
pub struct MfclMemory {
    /// Asset with the generator's parameters, which clients get once per task.
    pub(super) generator: Option<Arc<Asset>>,
}

impl MfclMemory {
    /// Returns the generator's parameters, if there is one.
    ///
    /// # Errors
    /// When tensors are not f32.
    pub(super) fn parameters(&self) -> Result<Option<ParameterSet>, WireError> {
        self.generator.as_ref().map(|asset| parameters_in(&asset.body)).transpose()
    }

    /// Keeps the generator that was trained at the end of a task.
    ///
    /// # Errors
    /// When values do not fill their shape, which does not happen.
    pub(super) fn keep(&mut self, task: TaskId, set: &ParameterSet) -> Result<(), WireError> {
        let tensor = |(name, parameter): (&Arc<str>, &Parameter)| {
            let Parameter { shape, values } = parameter.clone();
            NamedTensor::f32(Arc::clone(name), shape, values)
        };
        let tensors = set.iter().map(tensor).collect::<Result<_, _>>()?;
        let body = Body::new(Vec::new(), vec![Section::new(Kind::Generator, tensors)]);
        self.generator = Some(asset(u32::from(task.0), body));
        Ok(())
    }
}

impl ServerState for MfclMemory {}

impl Saved for MfclMemory {
    fn save(&self) -> Body {
        let Some(asset) = &self.generator else { return Body::default() };
        let task = NamedTensor::u32(TASK, [], vec![asset.version]).expect("a single number");
        let mut sections = asset.body.sections.clone();
        sections.push(Section::new(Kind::Statistics, vec![task]));
        Body::new(Vec::new(), sections)
    }

    fn load(saved: &Body) -> Result<MfclMemory, WireError> {
        let own = |section: &&Section| section.kind == Kind::Generator;
        let sections: Vec<Section> = saved.sections.iter().filter(own).cloned().collect();
        if sections.is_empty() {
            return Ok(MfclMemory::default());
        }
        let cut = || WireError::Malformed("a saved generator without its task".to_owned());
        let task = saved.tensor(Kind::Statistics, TASK)?.as_u32()?;
        let task = task.first().copied().ok_or_else(cut)?;
        Ok(MfclMemory { generator: Some(asset(task, Body::new(Vec::new(), sections))) })
    }
}

fn asset(task: u32, body: Body) -> Arc<Asset> {
    Arc::new(Asset::new(GENERATOR, task, Kind::Generator, body))
}

/// Returns the shape of the asset with the generator of the task with this index.
pub(super) fn asset_spec(task: u16, config: &ImageGeneratorConfig) -> AssetSpec {
    let shapes = config.parameter_shapes().into_iter();
    let tensors = shapes.map(|(name, shape)| TensorShape::new(name, shape, Dtype::F32));
    let section = SectionShape::new(Kind::Generator, tensors.collect());
    let body = BodyShape::new(0, vec![section]);
    AssetSpec { name: GENERATOR, version: u32::from(task), body, renewed_in: None }
}

/// Returns the parameters of the generator that comes with a download, if one does.
///
/// # Errors
/// When tensors are not f32.
pub(super) fn generator_of(download: &Message) -> Result<Option<ParameterSet>, WireError> {
    download.asset(GENERATOR).map(|asset| parameters_in(&asset.body)).transpose()
}

fn parameters_in(body: &Body) -> Result<ParameterSet, WireError> {
    let parameter = |tensor: &NamedTensor| {
        let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
        Ok((Arc::clone(tensor.name()), Parameter { shape, values }))
    };
    body.of_kind(Kind::Generator).map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ImageGenerator;
    use crate::numerics::streams::{Domain, StreamKey};
    use crate::policy::{parameter_sections, parameters_of};

    fn config() -> ImageGeneratorConfig {
        ImageGeneratorConfig { latent: 3, width: 2, last: 2, image: 8, ..Default::default() }
    }

    /// Bit for bit, apart from the server's parameters, and as the layout says.
    #[test]
    fn a_generator_is_saved_loaded_and_sent_whole() {
        let set = ImageGenerator::initial_parameters(&config(), StreamKey::new(1, Domain::Init));
        let mut memory = MfclMemory::default();
        assert_eq!(memory.save().digest(), Body::default().digest());
        memory.keep(TaskId(4), &set).unwrap();
        let spec = asset_spec(4, &config());
        let sent = memory.generator.clone().unwrap();
        assert!(sent.body.fills(&spec.body));
        assert_eq!((&*sent.name, sent.version, sent.kind), (spec.name, 4, Kind::Generator));
        let head = Parameter { shape: vec![1], values: [3.0].into() };
        let theta: ParameterSet = [("head.bias", head)].into_iter().collect();
        let mut saved = Body::new(Vec::new(), parameter_sections(&theta));
        saved.sections.extend(memory.save().sections);
        let loaded = MfclMemory::load(&saved).unwrap();
        assert_eq!(loaded.save().digest(), memory.save().digest());
        assert_eq!(loaded.generator.as_ref().unwrap().digest(), sent.digest());
        assert_eq!(
            (loaded.parameters().unwrap(), parameters_of(&saved).unwrap()),
            (Some(set), theta)
        );
    }
}
