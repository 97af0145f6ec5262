//! Computation of a run until a client's upload, and the attack on it.

use std::sync::Arc;

use candle_core::Tensor;
use parking_lot::Mutex;

use super::target::{TargetKind, UploadTarget};
use super::{Inversion, InversionError, InversionOptions, Original, Reconstruction};
use crate::data::{Normalization, Transform};
use crate::experiment::resume::Intact;
use crate::federation::{
    Entry, Event, EventSink, FederationError, Interrupt, Setup, SinkError, simulate,
};
use crate::learning::feature_inversion::{InvertedImage, psnr, ssim};
use crate::model::ops;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    ClientResult, Failure, Member, Message, Method, MethodWrapper, PolicyError, RunContext, Wrapped,
};
use crate::quantity::{ClientId, TaskId};

/// The upload that is inverted.
#[derive(Clone)]
pub(super) struct Capture {
    pub client: ClientId,
    pub task: TaskId,
    /// Name of the method.
    pub method: String,
    /// Hash of the scenario.
    pub scenario_hash: String,
    pub options: InversionOptions,
}

/// Computes a run from a checkpoint, or from its beginning, until the upload, and inverts it.
pub(super) fn attacked(
    mut setup: Setup,
    from: Option<Intact>,
    capture: Capture,
    interrupt: &Interrupt,
) -> Result<Option<Inversion>, InversionError> {
    setup.recorded = from.map(|intact| Arc::new(intact.recorded));
    let (found, stop) = (Arc::new(Mutex::new(None)), Interrupt::default());
    let attacker = Attacker {
        inner: Arc::clone(&setup.method),
        capture: capture.clone(),
        found: Arc::clone(&found),
        stop: stop.clone(),
    };
    setup.method = Arc::new(Wrapped(attacker));
    let watch = Watch { task: capture.task, stop: stop.clone(), interrupt: interrupt.clone() };
    simulate(setup, Box::new(watch), Box::new(()), stop)?;
    let found = found.lock().take();
    match found {
        Some(found) => Ok(Some(found.map_err(|error| {
            let source = Box::new(error);
            FederationError::Policy { step: "invert an upload", source }
        })?)),
        None if interrupt.is_requested() => Ok(None),
        None => Err(InversionError::NoUpload {
            client: capture.client.0,
            task: capture.options.task,
            wanted: capture.options.class.unwrap_or_else(|| "class".to_owned()),
        }),
    }
}

/// Sink that ends the computation once the task is over, or the user interrupts it.
struct Watch {
    task: TaskId,
    stop: Interrupt,
    interrupt: Interrupt,
}

impl EventSink for Watch {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let is_over = matches!(
            entry.event,
            Event::TaskEnded { task } if task >= self.task
        );
        if is_over || self.interrupt.is_requested() {
            self.stop.request();
        }
        Ok(())
    }
}

/// Wrapper of the run's method that attacks an upload, as a curious server would.
struct Attacker {
    inner: Arc<dyn Method>,
    capture: Capture,
    found: Arc<Mutex<Option<Result<Inversion, PolicyError>>>>,
    stop: Interrupt,
}

impl MethodWrapper for Attacker {
    fn inner(&self) -> &dyn Method {
        &*self.inner
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let results = self.inner.train(members, ctx);
        for (member, result) in members.iter().zip(&results) {
            let Member { participant, .. } = member;
            let meant = participant.client == self.capture.client
                && participant.view.task == self.capture.task;
            let Ok(ClientResult { upload, .. }) = result else { continue };
            if !meant || self.found.lock().is_some() {
                continue;
            }
            if let Some(inversion) = self.invert(member, upload, ctx).transpose() {
                *self.found.lock() = Some(inversion);
                self.stop.request();
            }
        }
        results
    }
}

impl Attacker {
    /// Inverts what an upload shows of a class, and the vectors of its images. `None` if the upload shows nothing.
    fn invert(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Inversion>, PolicyError> {
        let Some(inspection) = self.inner.inspection() else { return Ok(None) };
        let Some(disclosures) = inspection.disclosures(member, upload, ctx)? else {
            return Ok(None);
        };
        let class_of = |row: usize| ctx.task_sequence.order[row];
        let name_of = |row: usize| &*ctx.dataset.class_names[class_of(row) as usize];
        let InversionOptions { class, images, plan, .. } = &self.capture.options;
        let meant = |row: usize| class.as_deref().is_none_or(|name| name == name_of(row));
        let classes = disclosures.classes().into_iter().enumerate();
        let described = classes.filter(|(_, (row, _))| meant(*row));
        let smallest = described.min_by_key(|(_, (row, samples))| (*samples, *row));
        let Some((place, (row, count))) = smallest else { return Ok(None) };
        let Some(target) = UploadTarget::of(&disclosures, place) else { return Ok(None) };
        let labels = ctx.dataset.train.labels();
        let of_class = |sample: &&u32| labels[**sample as usize] == class_of(row);
        let samples: Vec<u32> =
            member.shard.iter().filter(of_class).take(*images).copied().collect();
        let plain =
            Transform { normalization: Normalization::None, ..(*ctx.statistics_transform).clone() };
        let stacked = ctx.dataset.train.pixels(&plain, &samples)?;
        let [_, channels, height, width] = stacked.shape;
        let shape = [channels, height, width];
        if stacked.pixels.iter().any(|value| !(0.0..=1.0).contains(value)) {
            let why = "images of floats outside 0 to 1 are not inverted";
            return Err(PolicyError::Unsupported(why.to_owned()));
        }
        let originals: Vec<Original> = samples
            .iter()
            .zip(stacked.pixels.chunks(channels * height * width))
            .map(|(sample, pixels)| Original { sample: *sample, pixels: pixels.to_vec() })
            .collect();
        let normalization = &ctx.statistics_transform.normalization;
        let input = |pixels: &Tensor| Ok(normalization.normalized(pixels)?);
        let vector = |pixels: &Tensor| target.vector(&input(pixels)?);
        let key = StreamKey::new(0, Domain::Attack).client(member.participant.client.0);
        let search =
            |vector: &Tensor, at: u32| target.search(vector, shape, input, *plan, key.round(at));
        let (mut of_features, mut sum) = (Vec::with_capacity(originals.len()), None);
        for (at, original) in (1..).zip(&originals) {
            let image =
                Tensor::from_slice(&original.pixels, (1, channels, height, width), &ctx.device)?;
            let vector = vector(&image)?.detach().flatten_all()?;
            of_features.push(rated(search(&vector, at)?, std::slice::from_ref(original), shape));
            sum = Some(match sum {
                None => vector,
                Some(sum) => (sum + vector)?,
            });
        }
        let sent = target.sent(&ctx.device)?;
        let of_upload = rated(search(&sent, 0)?, &originals, shape);
        let distance = match sum.filter(|_| originals.len() as u64 == count) {
            Some(sum) if target.kind() == TargetKind::Means => {
                let apart = ops::mean_all(&(sum / count as f64)?.sub(&sent)?.sqr()?)?;
                Some(f64::from(apart.to_scalar::<f32>()?))
            }
            _ => None,
        };
        Ok(Some(Inversion {
            method: self.capture.method.clone(),
            scenario_hash: self.capture.scenario_hash.clone(),
            target: target.kind(),
            client: member.participant.client.0,
            task: self.capture.options.task,
            class: class_of(row),
            name: name_of(row).to_owned(),
            samples: count,
            shape,
            originals,
            of_features,
            of_upload,
            distance,
        }))
    }
}

/// Returns an image with its mean likeness to originals.
fn rated(found: InvertedImage, originals: &[Original], shape: [usize; 3]) -> Reconstruction {
    let InvertedImage { pixels, first_loss, loss } = found;
    let mean = |of: &dyn Fn(&Original) -> f64| {
        originals.iter().map(of).sum::<f64>() / originals.len().max(1) as f64
    };
    let psnr = mean(&|original| psnr(&pixels, &original.pixels));
    let ssim = mean(&|original| ssim(&pixels, &original.pixels, shape));
    Reconstruction { pixels, first_loss, loss, psnr, ssim, lpips: None }
}
