//! Conversion of a method's messages to frames: packed, coded, sized, checked.
//!
//! Everything here runs on workers. A download that several participants share is packed once; receivers get it as the
//! codec leaves it.

use std::sync::Arc;

use super::event::FrameBytes;
use super::exchange::Exchange;
use super::specs::CompiledSpec;
use crate::policy::{
    Asset, AssetSpec, Message, Participant, PolicyError, RoundContext, UploadSize,
};
use crate::wire::{self, Body, CodecPlan, FrameHeader, FrameSize, WireError};

/// Codecs of messages.
#[derive(Clone, Debug, Default)]
pub struct Coding {
    /// Codecs of messages to clients.
    pub down: CodecPlan,
    /// Codecs of messages to the server.
    pub up: CodecPlan,
    /// True if every message is encoded, decoded and compared.
    pub verify: bool,
}

/// Returns the header of a download to a participant.
pub(crate) fn down_header(context: &RoundContext, participant: &Participant) -> FrameHeader {
    FrameHeader {
        kind: context.phase as u16,
        run: context.run_seed,
        sender: FrameHeader::SERVER,
        receiver: participant.client.0,
        round: context.round.0,
        task: context.stage.task.0,
        sequence: participant.id.0,
    }
}

/// A download as its receivers get it.
pub struct SentDownload {
    /// Message as the clients see it.
    pub message: Arc<Message>,
    /// Size of the frame by part.
    pub bytes: Arc<FrameBytes>,
    /// Assets that it names.
    pub assets: Vec<SentAsset>,
    /// Index of the first participant of its round that is sent an equal message.
    pub alike: usize,
}

/// Asset as a separate frame.
#[derive(Clone, Debug)]
pub struct SentAsset {
    /// Name and version.
    pub label: String,
    /// Identity by content.
    pub digest: u64,
    /// Size of the frame by part.
    pub bytes: Arc<FrameBytes>,
}

/// An upload as the server gets it.
pub struct SentUpload {
    /// Body that arrives; `None` if the worker that trained has aggregated it.
    pub body: Option<Body>,
    /// Model of the client without attack and noise, if client models are compared.
    pub own: Option<Message>,
    /// Exchange that defines its expected content; `None` if it comes from a record.
    pub exchange: Option<Arc<Exchange>>,
    /// Size of the frame by part.
    pub bytes: Arc<FrameBytes>,
    /// Digest of what arrives.
    pub digest: u64,
    /// Fault of the upload, if any.
    pub fault: Option<String>,
}

/// Packs, codes and sizes a download.
pub fn send_down(
    download: Arc<Message>,
    coding: &Coding,
    header: &FrameHeader,
) -> Result<SentDownload, PolicyError> {
    let assets: Result<_, WireError> =
        download.assets.iter().map(|asset| send_asset(asset, coding.verify, header)).collect();
    let body = download.body();
    let bytes = size(&body, &coding.down);
    let message = match carry(&body, &coding.down, coding.verify, header)? {
        Some(received) => Arc::new(Message::from_body(&received, &download.assets)?),
        None => download,
    };
    Ok(SentDownload { message, bytes, assets: assets?, alike: header.sequence as usize })
}

/// Sends an asset without codec, since it is identified by its content.
fn send_asset(
    asset: &Arc<Asset>,
    verify: bool,
    header: &FrameHeader,
) -> Result<SentAsset, WireError> {
    carry(&asset.body, &CodecPlan::default(), verify, header)?;
    Ok(sent_asset(asset))
}

/// Returns an asset as it was sent.
pub(super) fn sent_asset(asset: &Asset) -> SentAsset {
    SentAsset {
        label: format!("{}@{}", asset.name, asset.version),
        digest: asset.digest(),
        bytes: size(&asset.body, &CodecPlan::default()),
    }
}

/// Returns the size of a download whose body was received: codecs change values and no shape.
pub(super) fn size_of_received(body: &Body, coding: &Coding) -> Arc<FrameBytes> {
    size(body, &coding.down)
}

/// Returns the name and the version of an asset of which only the spec is known.
pub fn label_of(asset: &AssetSpec) -> String {
    format!("{}@{}", asset.name, asset.version)
}

/// Returns a frame for an asset of which only the spec is known; `content` identifies what it holds.
pub fn announced_asset(asset: &AssetSpec, content: &str) -> SentAsset {
    let label = label_of(asset);
    let hash = blake3::hash(content.as_bytes());
    let digest = *hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    let size = FrameSize::of_shape(&asset.body, &CodecPlan::default());
    SentAsset {
        digest: u64::from_le_bytes(digest),
        bytes: Arc::new(FrameBytes::from(&size)),
        label,
    }
}

/// Codes, sizes and checks an upload and its body. The server refuses it on arrival if `fault` is set.
pub fn send_up(
    body: Body,
    upload: &CompiledSpec,
    coding: &Coding,
    header: &FrameHeader,
) -> Result<SentUpload, WireError> {
    let (body, fault) = arranged(body, upload);
    let bytes = size(&body, &coding.up);
    let inspection = body.inspect();
    let mut digest = inspection.digest;
    let mut fault = fault
        .or_else(|| inspection.not_finite.map(|t| format!("tensor `{}` is not finite", t.name())));
    let mut arrives = None;
    // Codecs refuse what is not finite; the server will too.
    if fault.is_none() {
        match carry(&body, &coding.up, coding.verify, header) {
            Ok(received) => arrives = received,
            Err(error @ WireError::NotEncodable { .. }) => fault = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    if let Some(received) = &arrives {
        digest = received.digest();
    }
    Ok(SentUpload {
        body: Some(arrives.unwrap_or(body)),
        own: None,
        exchange: None,
        bytes,
        digest,
        fault,
    })
}

/// Sizes and checks a masked upload, which no codec can make smaller.
pub fn send_masked(
    body: Body,
    coding: &Coding,
    header: &FrameHeader,
) -> Result<SentUpload, WireError> {
    let lossless = CodecPlan::default();
    let bytes = size(&body, &lossless);
    let body = carry(&body, &lossless, coding.verify, header)?.unwrap_or(body);
    let digest = body.digest();
    Ok(SentUpload { body: Some(body), own: None, exchange: None, bytes, digest, fault: None })
}

/// Returns the body as the receiver gets it; `None` if it is equal to the sent one.
fn carry(
    body: &Body,
    plan: &CodecPlan,
    verify: bool,
    header: &FrameHeader,
) -> Result<Option<Body>, WireError> {
    if verify {
        wire::verify(header, body, plan).map(Some)
    } else if plan.is_lossless() {
        Ok(None)
    } else {
        wire::transmit(body, plan).map(Some)
    }
}

/// Arranges the tensors of an upload into the sections of its layout, or describes the difference.
///
/// A method that adds tensors in several steps may have made several sections of one kind. A difference is one of
/// shapes from those that the method declared.
fn arranged(body: Body, upload: &CompiledSpec) -> (Body, Option<String>) {
    if upload.layout.size == UploadSize::FromValues || body.fills(upload.body()) {
        return (body, None);
    }
    match body.arranged_as(upload.body()) {
        Some(arranged) => (arranged, None),
        None => {
            let fault = difference(&body, upload.body());
            (body, Some(fault))
        }
    }
}

/// Returns the difference between an upload's shape and what its method promised.
pub fn shape_fault(body: &Body, upload: &CompiledSpec) -> Option<String> {
    if upload.layout.size == UploadSize::FromValues || body.fills(upload.body()) {
        return None;
    }
    body.arranged_as(upload.body()).is_none().then(|| difference(body, upload.body()))
}

/// Describes the first tensor that differs, or both numbers of tensors if one list is longer.
fn difference(body: &Body, wanted: &wire::BodyShape) -> String {
    let got = body.shape();
    let flat = |sections: &[wire::SectionShape]| -> Vec<String> {
        let tensors = sections.iter().flat_map(|s| s.tensors.iter().map(move |t| (s.kind, t)));
        tensors.map(|(kind, t)| format!("{kind}/{} {:?} {:?}", t.name, t.shape, t.dtype)).collect()
    };
    let (got, wanted) = (flat(&got.sections), flat(&wanted.sections));
    let first = got.iter().zip(&wanted).find(|(g, w)| g != w);
    match first {
        Some((got, wanted)) => format!("{got} instead of {wanted}"),
        None => format!("{} tensors instead of {}", got.len(), wanted.len()),
    }
}

fn size(body: &Body, plan: &CodecPlan) -> Arc<FrameBytes> {
    Arc::new(FrameBytes::from(&FrameSize::of(body, plan)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{MessageSpec, TensorSpec};
    use crate::wire::{Dtype, Kind, NamedTensor, Section};

    /// An upload that declares a head and three statistics, and what becomes of this one.
    fn sent(extra: Vec<Section>) -> SentUpload {
        let place = |name| TensorSpec::new(Kind::Statistics, name, &[2], Dtype::F32);
        let layout = MessageSpec {
            extra: vec![place("a"), place("b"), place("c")],
            ..MessageSpec::of(vec![TensorSpec::parameter("head.bias", &[2])])
        };
        let mut sections = vec![Section::new(Kind::Head, vec![tensor("head.bias", 0.0)])];
        sections.extend(extra);
        let body = Body::new(Vec::new(), sections);
        let (coding, header) = (Coding::default(), FrameHeader::default());
        send_up(body, &CompiledSpec::of(layout), &coding, &header).unwrap()
    }

    fn tensor(name: &str, value: f32) -> NamedTensor {
        NamedTensor::f32(name, [2], vec![value; 2]).unwrap()
    }

    fn statistics(tensors: &[(&str, f32)]) -> Section {
        let tensors = tensors.iter().map(|(name, value)| tensor(name, *value)).collect();
        Section::new(Kind::Statistics, tensors)
    }

    #[test]
    fn sections_of_one_kind_arrive_as_the_one_that_is_declared() {
        let whole = sent(vec![statistics(&[("a", 1.0), ("b", 2.0), ("c", 3.0)])]);
        let parts = [
            vec![statistics(&[("a", 1.0)]), statistics(&[("b", 2.0), ("c", 3.0)])],
            vec![statistics(&[("a", 1.0), ("b", 2.0)]), statistics(&[]), statistics(&[("c", 3.0)])],
        ];
        assert_eq!(whole.fault, None);
        for parts in parts {
            let sent = sent(parts);
            assert_eq!((sent.fault, sent.digest), (None, whole.digest));
            assert_eq!(sent.bytes, whole.bytes);
        }
    }

    #[test]
    fn another_order_is_refused_at_the_first_tensor_that_differs() {
        let turned = sent(vec![statistics(&[("b", 2.0)]), statistics(&[("a", 1.0), ("c", 3.0)])]);
        let fault = turned.fault.unwrap();
        assert!(
            fault.contains("statistics/b") && fault.contains("instead of statistics/a"),
            "{fault}"
        );
        let few = sent(vec![statistics(&[("a", 1.0)]), statistics(&[("b", 2.0)])]);
        assert_eq!(few.fault.as_deref(), Some("3 tensors instead of 4"));
    }
}
