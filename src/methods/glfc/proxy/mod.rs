//! Proxy server: reconstructs images from clients' gradients, and picks the old model by its accuracy on them.
//!
//! ```text
//! client   on a signal, of every class of its samples: the sample nearest to the class mean of unit features, moved by
//!          `perturbation` steps of gradient descent on its pixels; sends the gradient of a LeNet at it     (prototype)
//! proxy    a label and the last images of a search for each gradient, in place of those before             (mod)
//!          in every round: if the mean model's score on them is at least the best so far, it is the best   (score)
//!          as a task ends the best model is the old model of the next one
//! ```
//! The receiver of a single image's gradient can reconstruct the image: only the perturbation protects clients. Clients
//! perturb their images without normalization, at the size that the network reads. Reconstructed values are clamped to
//! 0 to 1 and stored as bytes; in the releases values outside wrap around. Scores are of all reconstructed images, with
//! the transform `proxy_transform`; the releases leave out the last of their batches of 64.
//!
//! The two best models of the releases are one here: clients use `best_2` of the tasks before throughout a task, first
//! under this name and then as `best_1`. GLFC's release keeps its best score for the whole run, LGA's from the second
//! task on, so that one task may determine the old model of all later ones; here the score is reset with every task
//! unless `proxy_best` is set.

mod prototype;
mod score;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;

pub(super) use self::prototype::gradients;
use self::score::ClassSpread;
pub use self::score::{Augment, Scale};
pub(super) use self::score::{TRACED, TRACES, trace};
use crate::data::{DataError, Split};
use crate::learning::gradient_matching::{LeNet, Matching, Search};
use crate::methods::averaging::{ClosedRound, ServerState};
use crate::methods::glfc::images::PassTransform;
use crate::methods::herded::choosing_work;
use crate::model::{HeadKind, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Asset, ModelFacts, PolicyError, parameter_sections, parameters_of, vector_section, vectors_of,
};
use crate::quantity::{ClientId, TaskId};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Body, Kind, NamedTensor, Saved, Section, WireError};

/// Name of the gradients in uploads.
pub(super) const GRADIENTS: &str = "gradients";
/// Name of the old model as an asset.
pub(super) const OLD: &str = "old";

/// Time for which the best score counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum BestScore {
    /// Until the task ends.
    Task,
    /// Until the first task ends, and from then on for the whole run.
    SecondTask,
    /// For the whole run.
    Kept,
}

impl BestScore {
    /// Returns true if the best score is reset as a task ends.
    fn ends_with(self, task: TaskId) -> bool {
        match self {
            BestScore::Task => true,
            BestScore::SecondTask => task.0 == 0,
            BestScore::Kept => false,
        }
    }
}

/// Proxy server, which reconstructs images and keeps the model that is best on them.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(given(release: &'static str))]
pub struct Proxy {
    /// Calls of L-BFGS, of 20 iterations each, to reconstruct an image.
    #[key(name = "proxy_calls", default = 250, at_least = 1.0, source = release)]
    pub calls: u32,
    /// Number of images kept of the search for each gradient: the last ones.
    #[key(name = "proxy_images", default = 20, at_least = 1.0, source = release)]
    pub images: u32,
    /// Steps that perturb a client's image before its gradient is sent.
    #[key(name = "proxy_perturbation", default = 50, at_most = 1e5, source = release)]
    pub perturbation: u32,
    /// Time for which the best score counts.
    #[key(
        name = "proxy_best",
        default = BestScore::Task,
        source = "kept in GLFC's release, second-task in LGA's"
    )]
    pub best: BestScore,
    /// Transform of the images found, for their scores.
    #[key(name = "proxy_transform", default = PassTransform::Train, source = release)]
    pub transform: PassTransform,
    /// Seed of the LeNet that clients and server share.
    #[key(name = "proxy_seed", default = 0)]
    pub seed: u64,
    /// Rounds of a task in which scores count as zero.
    #[key(value = 0)]
    pub wait: u32,
    /// Noisy copies of features that are scored (LGA), in place of images.
    #[key(value = None)]
    pub augment: Option<Augment>,
}

impl Proxy {
    fn search(&self) -> Search {
        Search { calls: self.calls as usize, rate: 0.1, kept: self.images as usize }
    }

    /// Returns the LeNet whose gradients are sent, with the initial values that clients and server share.
    pub(super) fn net(&self, model: &ModelFacts) -> LeNet {
        let key = StreamKey::new(self.seed, Domain::Init);
        LeNet::new(model.backbone.input(), model.classes, key)
    }

    /// Reconstructs images from a round's gradients, and scores the mean model on them; returns metrics.
    pub(super) fn close(
        &self,
        seen: &mut Seen,
        closing: &ClosedRound<'_>,
        theta: &ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let ClosedRound { model, aggregate, round, ctx, .. } = closing;
        let mut sent = Vec::new();
        for kept in &aggregate.kept_uploads {
            seen.take_traces(kept.meta.participant.client, &kept.update)?;
            if let Some(gradients) = kept.update.find(Kind::Statistics, GRADIENTS) {
                let length = gradients.shape().last().copied().unwrap_or(0).max(1);
                let numbers = gradients.numbers();
                sent.extend(numbers.chunks(length).map(<[f64]>::to_vec));
            }
        }
        let mut metrics = Vec::new();
        if !sent.is_empty() {
            let distance = self.look(seen, model, &sent, round.key(Domain::Method))?;
            metrics.push(("gradients", sent.len() as f64));
            metrics.push(("matching_distance", distance));
        }
        let rows = round.stage.view.seen();
        let augment = self.augment.map(|augment| augment.at(seen.radius));
        let known = match round.round_in_phase < self.wait {
            true => 0.0,
            false => score::of(
                seen,
                theta,
                rows,
                (self.transform, augment),
                (round.key(Domain::Init), ctx),
            )?,
        };
        metrics.push(("proxy_score", known));
        if known >= seen.best {
            seen.best = known;
            seen.newest = Some((theta.clone(), rows));
        }
        Ok(metrics)
    }

    /// Replaces the images by reconstructions from these gradients.
    ///
    /// Returns the mean distance between the gradients of reconstructions and those sent.
    fn look(
        &self,
        seen: &mut Seen,
        model: &ModelFacts,
        sent: &[Vec<f64>],
        key: StreamKey,
    ) -> Result<f64, PolicyError> {
        let net = self.net(model);
        let short = || PolicyError::Unsupported("a gradient is of another network".to_owned());
        (seen.images, seen.labels) = (Vec::new(), Vec::new());
        seen.shape = net.image();
        let mut total = 0.0;
        for (number, gradient) in (0..).zip(sent) {
            if gradient.len() != LeNet::length_of(net.image(), model.classes) {
                return Err(short());
            }
            let label = net.label_of(gradient);
            let matching = Matching { net: &net, gradient, label };
            let (images, distance) = self.search().run(&matching, key.step(number));
            total += distance;
            for image in images {
                seen.images
                    .extend(image.iter().map(|value| (value * 255.0).clamp(0.0, 255.0) as u8));
                seen.labels.push(label as u32);
            }
        }
        Ok(total / sent.len() as f64)
    }

    /// Ends a task: the best model becomes the old one.
    ///
    /// With `cut` its head has only the rows seen.
    pub(super) fn end_task(
        &self,
        seen: &mut Seen,
        theta: &ParameterSet,
        (task, rows): (TaskId, usize),
        cut: bool,
    ) -> Result<(), PolicyError> {
        let (best, known) = seen.newest.clone().unwrap_or_else(|| (theta.clone(), rows));
        let best = if cut { with_rows(&best, rows)? } else { best };
        seen.old = Some(asset(task, &best, known));
        if self.best.ends_with(task) {
            seen.best = 0.0;
        }
        if let (0, Some(augment)) = (task.0, &self.augment) {
            seen.end_first_task(augment);
        }
        Ok(())
    }

    /// Returns the sample passes of a round with gradients of `images` images, for virtual time.
    ///
    /// The search takes place in a task's first round; in each round that scores a model, the kept images take a
    /// forward pass.
    pub(super) fn work(&self, model: &ModelFacts, round: u32, images: usize) -> f64 {
        let images = images as f64;
        // Each iteration has a gradient by parameters and two by pixels, of three forward passes each.
        let iterations = (self.search().calls * Search::ITERATIONS) as f64;
        let looking = match round {
            0 => model.passes(images * iterations * 9.0 * lenet(model)),
            _ => 0.0,
        };
        let scored = if round < self.wait { 0.0 } else { images * f64::from(self.images) };
        looking + scored / 3.0
    }

    /// Returns the sample passes of a signaled client with samples of `classes` classes, for virtual time.
    ///
    /// They are a forward pass, the distances to class means, and for each class the steps that move an image and the
    /// gradient at it.
    pub(super) fn client_work(&self, model: &ModelFacts, samples: usize, classes: usize) -> f64 {
        let nearest = choosing_work(model, samples, (classes, classes), classes);
        let moving = classes as f64 * f64::from(self.perturbation);
        nearest + moving + model.passes(classes as f64 * 3.0 * lenet(model))
    }
}

/// Returns the multiplications of a forward pass of the LeNet.
fn lenet(model: &ModelFacts) -> f64 {
    LeNet::multiplications_of(model.backbone.input(), model.classes) as f64
}

/// Returns a set with its head cut to the first rows.
pub(super) fn with_rows(set: &ParameterSet, rows: usize) -> Result<ParameterSet, PolicyError> {
    let mut cut = set.clone();
    for name in HeadKind::of(set).by_row() {
        if let Some(whole) = set.get(name) {
            cut.insert(*name, whole.cut(0..rows)?);
        }
    }
    Ok(cut)
}

/// Returns the asset of the old model after `task`, which has outputs for `rows` head rows.
fn asset(task: TaskId, parameters: &ParameterSet, rows: usize) -> Arc<Asset> {
    let meta = (rows as u32).to_le_bytes().to_vec();
    let body = Body::new(meta, parameter_sections(parameters));
    Arc::new(Asset::new(OLD, u32::from(task.0), Kind::Weights, body))
}

/// Returns the old model in an asset, and the number of its head rows.
///
/// # Errors
/// When the asset does not contain an old model.
pub(super) fn old_in(asset: &Asset) -> Result<(ParameterSet, usize), WireError> {
    let rows: Result<[u8; 4], _> = asset.body.meta.as_slice().try_into();
    let rows =
        rows.map_err(|_| WireError::Malformed("an old model without its rows".to_owned()))?;
    Ok((parameters_of(&asset.body)?, u32::from_le_bytes(rows) as usize))
}

/// State of the proxy server; empty if there is none.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Reconstructed images as bytes, concatenated.
    pub images: Vec<u8>,
    /// Channels, rows and columns of each image.
    pub shape: [usize; 3],
    /// Head rows of the images' classes.
    pub labels: Vec<u32>,
    /// Best score so far.
    best: f64,
    /// Model with the best score, and the number of its head rows.
    newest: Option<(ParameterSet, usize)>,
    /// Asset with the old model for clients.
    pub(super) old: Option<Arc<Asset>>,
    /// Radius of noisy copies by the spread that clients reported; 0 until it is known.
    radius: f64,
    /// Spreads of features that clients reported last in the first task.
    traces: BTreeMap<ClientId, Vec<ClassSpread>>,
}

impl Seen {
    /// Returns the images as a data set of `classes` classes.
    fn split(&self, classes: usize) -> Result<Split, DataError> {
        Split::from_buffer(self.images.clone(), self.shape, self.labels.clone(), classes)
    }
}

const NUMBERS: &str = "proxy";

impl Saved for Seen {
    fn save(&self) -> Body {
        let Some((newest, rows)) = &self.newest else { return Body::default() };
        let old = self.old.as_ref().map_or((0, 0), |old| {
            (u64::from(old.version) + 1, old_in(old).map_or(0, |(_, rows)| rows))
        });
        let mut numbers = vec![self.best, self.radius, *rows as f64, old.0 as f64, old.1 as f64];
        for (client, spreads) in &self.traces {
            numbers.extend(spreads.iter().flat_map(|ClassSpread { row, trace, samples }| {
                [f64::from(client.0), f64::from(*row), *trace, f64::from(*samples)]
            }));
        }
        let count = numbers.len();
        let numbers = NamedTensor::f64(NUMBERS, [count], numbers).expect("a list fills its length");
        let n = self.labels.len();
        let [channels, height, width] = self.shape;
        let bytes = crate::wire::TensorValues::U8(self.images.clone().into());
        let tensors = vec![
            NamedTensor::new("images", [n, channels, height, width], bytes),
            NamedTensor::u32("labels", [n], self.labels.clone()),
        ];
        let tensors = tensors.into_iter().map(|tensor| tensor.expect("images fill their shape"));
        let mut sections = vec![
            Section::new(Kind::Settings, vec![numbers]),
            Section::new(Kind::SyntheticData, tensors.collect()),
            vector_section("newest", newest),
        ];
        if let Some((set, _)) = self.old.as_ref().and_then(|old| old_in(old).ok()) {
            sections.push(vector_section(OLD, &set));
        }
        Body::new(Vec::new(), sections)
    }

    fn load(saved: &Body) -> Result<Seen, WireError> {
        if saved.of_kind(Kind::Settings).next().is_none() {
            return Ok(Seen::default());
        }
        let numbers = saved.tensor(Kind::Settings, NUMBERS)?.as_f64()?;
        let cut = || WireError::Malformed("a saved proxy server is cut short".to_owned());
        let (first, spreads) = numbers.split_at_checked(5).ok_or_else(cut)?;
        let [best, radius, rows, task, old_rows] = first else { return Err(cut()) };
        let images = saved.tensor(Kind::SyntheticData, "images")?;
        let [_, channels, height, width] = images.shape()[..] else { return Err(cut()) };
        let old = vectors_of(&saved.sections, OLD)?;
        let old = (*task > 0.0).then(|| asset(TaskId(*task as u16 - 1), &old, *old_rows as usize));
        let mut traces: BTreeMap<ClientId, Vec<ClassSpread>> = BTreeMap::new();
        for said in spreads.chunks_exact(4) {
            let spread =
                ClassSpread { row: said[1] as u32, trace: said[2], samples: said[3] as u32 };
            traces.entry(ClientId(said[0] as u32)).or_default().push(spread);
        }
        Ok(Seen {
            images: images.numbers().into_iter().map(|byte| byte as u8).collect(),
            shape: [channels, height, width],
            labels: saved.tensor(Kind::SyntheticData, "labels")?.as_u32()?.to_vec(),
            best: *best,
            newest: Some((vectors_of(&saved.sections, "newest")?, *rows as usize)),
            old,
            radius: *radius,
            traces,
        })
    }
}

impl ServerState for Seen {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::glfc::Glfc;

    #[test]
    fn a_best_score_counts_until_the_key_says() {
        let after = |best, task| {
            let proxy = Proxy { best, ..Glfc::default_lga().proxy };
            let mut seen = Seen { best: 0.7, ..Seen::default() };
            let ended = (TaskId(task), 2);
            proxy.end_task(&mut seen, &ParameterSet::new(), ended, false).unwrap();
            seen.best
        };
        let of = |best| [0, 1, 2].map(|task| after(best, task));
        assert_eq!(of(BestScore::Task), [0.0; 3]);
        assert_eq!(of(BestScore::SecondTask), [0.0, 0.7, 0.7]);
        assert_eq!(of(BestScore::Kept), [0.7; 3]);
    }
}
