//! Messages: what a method sends, in either direction, as data.
//!
//! A [`Message`] is control fields, parameters, named tensors with kinds, and the assets it names. The engine packs,
//! sizes, checks, aggregates, clips, masks and saves it without knowing the method; the method reads its own tensors
//! from it. What a message holds is declared beforehand, once, by a [`MessageSpec`].

use std::sync::Arc;

use super::{MessageSpec, TensorSpec, parameter_sections, parameters_of};
use crate::model::ParameterSet;
use crate::wire::{Body, Kind, MetaReader, NamedTensor, Section, TensorValues, WireError};

/// Message between the server and one participant. Cloning shares all values.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Fields that are not tensors, written by [`MetaWriter`](crate::wire::MetaWriter): rows, flags, digests of assets.
    pub control: Vec<u8>,
    /// Parameters; their kind follows from their names.
    pub parameters: ParameterSet,
    /// Tensors in addition to the parameters, in sections of other kinds.
    pub extra: Vec<Section>,
    /// Assets it names; each is shipped once per receiver that lacks it.
    pub assets: Vec<Arc<Asset>>,
}

/// Returns true if parameters are of this kind.
fn is_parameters(kind: Kind) -> bool {
    matches!(kind, Kind::Weights | Kind::Prompt | Kind::Head)
}

impl Message {
    /// Creates a message of parameters alone.
    pub fn of(parameters: ParameterSet) -> Message {
        Message { parameters, ..Message::default() }
    }

    /// Builds the message of a layout: its control fields, these parameters, and these values for its other places, in
    /// order.
    ///
    /// # Errors
    /// If names, shapes or types are not those of the layout.
    pub fn filling(
        layout: &MessageSpec,
        parameters: ParameterSet,
        values: impl IntoIterator<Item = TensorValues>,
    ) -> Result<Message, WireError> {
        let misfit = |name: &str| WireError::Malformed(format!("`{name}` is not as its layout"));
        let differs = |place: &&TensorSpec| {
            parameters.get(&place.name).is_none_or(|found| found.shape != place.shape)
        };
        if let Some(place) = layout.parameters.iter().find(differs) {
            return Err(misfit(&place.name));
        }
        if let Some((name, _)) =
            parameters.iter().find(|(name, _)| layout.parameter(name).is_none())
        {
            return Err(misfit(name));
        }
        let (mut values, mut extra) = (values.into_iter(), Vec::<Section>::new());
        for place in &layout.extra {
            let found = values.next().filter(|values| values.dtype() == place.dtype);
            let found = found.ok_or_else(|| misfit(&place.name))?;
            let tensor = NamedTensor::new(Arc::clone(&place.name), place.shape.clone(), found)?;
            match extra.last_mut() {
                Some(section) if section.kind == place.kind => section.tensors.push(tensor),
                _ => extra.push(Section::new(place.kind, vec![tensor])),
            }
        }
        match values.next() {
            Some(_) => Err(WireError::Malformed("values without a place".to_owned())),
            None => {
                let control = layout.control.clone();
                Ok(Message { control, parameters, extra, assets: Vec::new() })
            }
        }
    }

    /// Returns the frame body. Tensors are shared, never copied.
    pub fn body(&self) -> Body {
        let mut sections = parameter_sections(&self.parameters);
        sections.extend(self.extra.iter().cloned());
        Body::new(self.control.clone(), sections)
    }

    /// Returns the message that a body carries, with the assets that it named.
    ///
    /// # Errors
    /// If parameters are not f32.
    pub fn from_body(body: &Body, assets: &[Arc<Asset>]) -> Result<Message, WireError> {
        let extra = body.sections.iter().filter(|section| !is_parameters(section.kind));
        Ok(Message {
            control: body.meta.clone(),
            parameters: parameters_of(body)?,
            extra: extra.cloned().collect(),
            assets: assets.to_vec(),
        })
    }

    /// Reads the control fields.
    pub fn fields(&self) -> MetaReader<'_> {
        MetaReader::new(&self.control)
    }

    /// Returns a tensor that is not a parameter.
    ///
    /// # Errors
    /// [`WireError::Missing`] with the names that exist.
    pub fn tensor(&self, kind: Kind, name: &str) -> Result<&NamedTensor, WireError> {
        let found = self.find(kind, name);
        // The body reports the names that exist.
        found.ok_or_else(|| match self.body().tensor(kind, name) {
            Err(error) => error,
            Ok(_) => WireError::Malformed(format!("`{name}` is a parameter")),
        })
    }

    /// Returns a tensor that is not a parameter, or `None` if it is absent.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&NamedTensor> {
        let sections = self.extra.iter().filter(|section| section.kind == kind);
        sections.flat_map(|section| &section.tensors).find(|tensor| &**tensor.name() == name)
    }

    /// Returns a tensor of any kind that is not a parameter.
    pub fn named(&self, name: &str) -> Option<&NamedTensor> {
        let tensors = self.extra.iter().flat_map(|section| &section.tensors);
        tensors.into_iter().find(|tensor| &**tensor.name() == name)
    }

    /// Returns the asset of this name, if the message names one.
    pub fn asset(&self, name: &str) -> Option<&Arc<Asset>> {
        self.assets.iter().find(|asset| &*asset.name == name)
    }
}

/// Versioned, content-addressed blob that a download names instead of carrying it.
///
/// Examples are a previous model, a Fisher matrix, a generator, or finished prompts. The engine ships it when the
/// receiver lacks it, charged under its own kind; `wire.asset_cache` in the scenario defines what receivers keep.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Name within the method.
    pub name: Arc<str>,
    /// Version; a receiver that holds another version lacks this one.
    pub version: u32,
    /// Kind that its bytes are charged as.
    pub kind: Kind,
    /// The content.
    pub body: Arc<Body>,
    digest: u64,
}

impl Asset {
    /// Creates an asset whose identity is its content.
    pub fn new(name: &str, version: u32, kind: Kind, body: Body) -> Asset {
        let digest = body.digest();
        Asset { name: name.into(), version, kind, body: Arc::new(body), digest }
    }

    /// Returns the 64-bit digest of the content; the key of receivers' caches.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameter;
    use crate::wire::{Dtype, MetaWriter};

    #[test]
    fn a_message_is_read_back_from_its_body() -> Result<(), WireError> {
        let of = |values: &[f32]| Parameter { shape: vec![values.len()], values: values.into() };
        let parameters: ParameterSet =
            [("head.bias", of(&[1.0])), ("conv.weight", of(&[2.0, 3.0])), ("prompt.0", of(&[4.0]))]
                .into_iter()
                .collect();
        let mut control = MetaWriter::new();
        control.u64(300);
        let samples = NamedTensor::u32("samples", [], vec![7])?;
        let extra = vec![Section::new(Kind::Statistics, vec![samples])];
        let asset = Arc::new(Asset::new("previous", 1, Kind::Weights, Body::default()));
        let control = control.finish();
        let sent = Message { control, parameters, extra, assets: vec![Arc::clone(&asset)] };
        let body = sent.body();
        let kinds: Vec<Kind> = body.sections.iter().map(|section| section.kind).collect();
        assert_eq!(kinds, [Kind::Weights, Kind::Prompt, Kind::Head, Kind::Statistics]);
        let read = Message::from_body(&body, &[asset])?;
        assert_eq!(read.body().digest(), body.digest());
        assert_eq!(read.parameters, sent.parameters);
        assert_eq!(read.fields().u64()?, 300);
        assert_eq!(read.tensor(Kind::Statistics, "samples")?.as_u32()?[0], 7);
        assert_eq!(read.asset("previous").map(|asset| asset.version), Some(1));
        assert!(
            read.tensor(Kind::Statistics, "counts").unwrap_err().to_string().contains("counts")
        );
        Ok(())
    }

    #[test]
    fn a_message_fills_its_layout_or_is_none() -> Result<(), WireError> {
        let bias = Parameter { shape: vec![2], values: [1.0, 2.0].into() };
        let set = || -> ParameterSet { [("head.bias", bias.clone())].into_iter().collect() };
        let mut layout = MessageSpec::of(vec![TensorSpec::parameter("head.bias", &[2])]);
        layout.control = vec![3];
        layout.extra = vec![
            TensorSpec::new(Kind::Statistics, "counts", &[2], Dtype::U32),
            TensorSpec::new(Kind::Statistics, "sum", &[], Dtype::F64),
            TensorSpec::new(Kind::Prototypes, "means", &[1, 1], Dtype::F64),
        ];
        let values = || {
            let number = |values: &[f64]| TensorValues::F64(values.into());
            vec![TensorValues::U32([1, 2].into()), number(&[0.5]), number(&[4.0])]
        };
        let message = Message::filling(&layout, set(), values())?;
        assert!(message.body().fills(&layout.body()));
        assert_eq!(message.body().meta, [3]);
        assert_eq!(message.tensor(Kind::Prototypes, "means")?.as_f64()?[..], [4.0]);
        let refused = |parameters: ParameterSet, values: Vec<TensorValues>| {
            Message::filling(&layout, parameters, values).is_err()
        };
        assert!(refused(ParameterSet::new(), values()));
        let more = set().iter().map(|(name, p)| (name.to_string(), p.clone())).collect::<Vec<_>>();
        let more = more.into_iter().chain([("head.weight".to_owned(), bias.clone())]);
        assert!(refused(more.collect(), values()));
        let long = Parameter { shape: vec![1, 2], values: [1.0, 2.0].into() };
        assert!(refused([("head.bias", long)].into_iter().collect(), values()));
        assert!(refused(set(), values()[..2].to_vec()));
        assert!(refused(set(), [values(), values()].concat()));
        let mut swapped = values();
        swapped.swap(0, 1);
        assert!(refused(set(), swapped));
        Ok(())
    }
}
