//! Inspection of a file of weights: its kind, the tensors that would be read, and its network.

use std::collections::BTreeMap;

use super::deep_resnet::Depth;
use super::weights_file::OpenWeights;
use super::{
    BackboneConfig, BertConfig, DeepResNetConfig, ModelError, ResNetConfig, Stem, VitConfig,
    WeightsSource,
};
use crate::scenario::BertPooling;
use crate::weights::{
    Format, InferredVit, NameMap, Network, READ, ResNetLooks, WeightsError, blocks,
};

/// Report on a file of weights.
#[derive(Debug)]
pub struct WeightsReport {
    /// Container of the file.
    pub format: Format,
    /// Key in a larger file under which its tensors were.
    pub part: Option<String>,
    /// Keys under which the file holds other sets of weights.
    pub others: Vec<String>,
    /// Names in the file and in our networks.
    pub map: NameMap,
    /// Network in the file and the digest of its parameters, or the reason why it cannot be used.
    pub network: Result<(BackboneConfig, blake3::Hash), ModelError>,
}

/// Inspects a file; `heads` are those of its transformer if they do not follow from the width.
///
/// # Errors
/// Returns an error if the file cannot be read, or its names are unknown.
pub fn inspect_weights(
    source: &WeightsSource,
    heads: Option<usize>,
) -> Result<WeightsReport, ModelError> {
    let opened = OpenWeights::open(source)?;
    let (format, others) = (opened.format(), opened.others());
    let part = opened.part().map(str::to_owned);
    let map = opened.map.clone();
    let network = dimensions(&source.name, &map, heads).and_then(|config| {
        let set = opened.parameters(map.family.network, config.parameter_shapes())?;
        Ok((config, set.digest()))
    });
    Ok(WeightsReport { format, part, others, map, network })
}

/// Returns the known network that a file probably belongs to.
fn dimensions(
    file: &str,
    map: &NameMap,
    heads: Option<usize>,
) -> Result<BackboneConfig, ModelError> {
    let shapes = map.shapes();
    match map.family.network {
        Network::Vit => Ok(VitConfig::inferred(file, InferredVit::of(file, map)?, heads)?.into()),
        Network::ResNet => resnet(file, &shapes),
        Network::Bert => bert(file, &shapes),
    }
}

fn resnet(file: &str, shapes: &BTreeMap<&str, &[usize]>) -> Result<BackboneConfig, ModelError> {
    let looks = ResNetLooks::of(shapes);
    let stem = shapes.get("conv1.weight").copied().unwrap_or_default();
    let deep = |depth| BackboneConfig::DeepResNet(DeepResNetConfig { depth, image: 224 });
    match (looks.kind(), stem) {
        (Some("resnet50"), _) => Ok(deep(Depth::Fifty)),
        (Some("resnet152"), _) => Ok(deep(Depth::HundredFiftyTwo)),
        (Some(_), [width, channels, kernel, _]) => {
            let (stem, image) = match kernel {
                7 => (Stem::ImageNet, 224),
                _ => (Stem::Small, 32),
            };
            let (width, channels, blocks) = (*width, *channels, [2; 4]);
            Ok(BackboneConfig::ResNet(ResNetConfig { image, channels, width, blocks, stem }))
        }
        _ => Err(WeightsError::Foreign {
            file: file.to_owned(),
            what: format!("holds {}", looks.words()),
            advice: READ.to_owned(),
        }
        .into()),
    }
}

fn bert(file: &str, shapes: &BTreeMap<&str, &[usize]>) -> Result<BackboneConfig, ModelError> {
    let rows = |name: &str| shapes.get(name).and_then(|shape| shape.first()).copied();
    let hidden = rows("embeddings.LayerNorm.weight");
    let parts = (
        rows("embeddings.word_embeddings.weight"),
        hidden,
        rows("encoder.layer.0.intermediate.dense.weight"),
        rows("embeddings.position_embeddings.weight"),
    );
    let (Some(vocabulary), Some(hidden), Some(intermediate), Some(positions)) = parts else {
        return Err(WeightsError::Foreign {
            file: file.to_owned(),
            what: "holds a part of a BERT only".to_owned(),
            advice: "use a checkpoint with its embeddings and all of its layers".to_owned(),
        }
        .into());
    };
    let layers = blocks(shapes, "encoder.layer.");
    // Settings that a scenario adds do not change the set of parameters.
    let (heads, length, pooling) = ((hidden / 64).max(1), positions, BertPooling::Cls);
    let config =
        BertConfig { vocabulary, hidden, layers, heads, intermediate, positions, length, pooling };
    Ok(BackboneConfig::Bert(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bert, ParameterSet, ResNet, is_buffer, to_safetensors};
    use crate::numerics::streams::{Domain, StreamKey};

    fn surveyed(set: &ParameterSet) -> WeightsReport {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        std::fs::write(&path, to_safetensors(set).unwrap()).unwrap();
        inspect_weights(&WeightsSource::at(&path), None).unwrap()
    }

    fn key() -> StreamKey {
        StreamKey::new(1, Domain::Init)
    }

    #[test]
    fn a_residual_network_and_a_bert_are_known_by_their_shapes() {
        let config =
            ResNetConfig { width: 4, stem: Stem::ImageNet, image: 224, ..ResNetConfig::default() };
        let set = ResNet::initial_parameters(&config, key());
        let found = surveyed(&set).network.unwrap();
        assert_eq!(found, (BackboneConfig::ResNet(config), set.digest()));

        let config = BertConfig {
            vocabulary: 11,
            hidden: 64,
            layers: 2,
            heads: 1,
            intermediate: 5,
            positions: 13,
            length: 13,
            pooling: BertPooling::Cls,
        };
        let set = Bert::initial_parameters(&config, key());
        let found = surveyed(&set).network.unwrap();
        assert_eq!(found, (BackboneConfig::Bert(config), set.digest()));
    }

    #[test]
    fn counters_that_old_files_lack_are_zero_and_other_buffers_must_be_there() {
        let config = ResNetConfig { width: 4, ..ResNetConfig::default() };
        let set = ResNet::initial_parameters(&config, key());
        let old = set.filter(|name| !name.ends_with("num_batches_tracked"));
        assert_eq!(surveyed(&old).network.unwrap().1, set.digest());
        let none = set.filter(|name| !is_buffer(name));
        let error = surveyed(&none).network.unwrap_err().to_string();
        assert!(error.contains("running_mean"), "{error}");
    }

    #[test]
    fn networks_that_are_not_ours_are_called_by_their_names() {
        let config = ResNetConfig { width: 4, blocks: [3, 4, 6, 3], ..ResNetConfig::default() };
        let set = ResNet::initial_parameters(&config, key());
        let error = surveyed(&set).network.unwrap_err().to_string();
        assert!(error.contains("ResNet-34") && error.contains("resnet18"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        std::fs::write(&path, to_safetensors(&set).unwrap()).unwrap();
        let source = WeightsSource::at(&path);
        let eighteen = ResNetConfig { blocks: [2; 4], ..config };
        let error = ResNet::load(&source, eighteen).unwrap_err().to_string();
        assert!(error.contains("no place for") && error.contains("`layer1.2."), "{error}");
        let error = crate::model::vit::Checkpoint::stated(&source, VitConfig::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a residual network (torchvision ResNet), not a vision"), "{error}");
    }
}
