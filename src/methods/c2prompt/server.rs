//! C2Prompt's server: Powder's, with Gaussians of classes and class-aware aggregation of components.

use std::sync::Arc;

use super::C2Prompt;
use super::affinity::{Histogram, affinity};
use super::messages::{closed, scores};
use super::moments::{Gaussians, SlotMoments, pooled};
use crate::data::TaskView;
use crate::learning::prompting::ComponentPart;
use crate::methods::powder::{PowderServer, SlotKey};
use crate::model::Parameter;
use crate::policy::{
    Folded, Kept, Lab, Message, PolicyError, Predictor, RoundContext, Seat, Server, shared,
};
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

/// What the server knows.
pub struct C2PromptServer {
    pub(super) method: Arc<C2Prompt>,
    pub(super) powder: PowderServer,
    /// The moments that clients reported in this period.
    pub(super) reports: Vec<Report>,
    pub(super) figures: Vec<(&'static str, f64)>,
}

/// Moments of a slot's classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    slot: SlotKey,
    /// Ids of the data set.
    classes: Vec<u32>,
    moments: SlotMoments,
}

/// The classes of a view as ids of the data set, in which a class that comes again is the same one.
fn classes_of(view: &TaskView, lab: &Lab) -> Vec<u32> {
    lab.curriculum.classes_of(view)
}

impl C2PromptServer {
    /// The Gaussians that each seat's classes have over all clients.
    fn gaussians(&self, seats: &[Seat], lab: &Lab) -> Result<Vec<Arc<Message>>, PolicyError> {
        let dim = lab.backbone.dim();
        let reports: Vec<(&[u32], &SlotMoments)> =
            self.reports.iter().map(|report| (&report.classes[..], &report.moments)).collect();
        let pooled = pooled(&reports, dim)?;
        let of = |seat: &Seat| {
            let classes = classes_of(&seat.view, lab);
            Ok(Arc::new(Gaussians::of(&classes, &pooled, dim).write(dim)?))
        };
        seats.iter().map(of).collect()
    }

    /// Mixes the components of slots that were trained in a round, by how well they match classes.
    fn aggregate(&mut self, matched: Vec<(SlotKey, Histogram)>) -> Result<(), PolicyError> {
        let shape = &self.method.powder.shape;
        let table = self.powder.table();
        let (keys, histograms): (Vec<SlotKey>, Vec<Histogram>) = matched.into_iter().unzip();
        let numbers: Vec<usize> = keys.into_iter().filter_map(|key| table.find(key)).collect();
        let weights = affinity(&histograms, self.method.config.cpa_temperature);
        let size = weights.size();
        let own: f64 = (0..size).map(|row| weights.weights(row)[row]).sum();
        self.figures.push(("cpa_own_weight", own / size.max(1) as f64));
        let mut all = Vec::new();
        for block in shape.blocks.clone() {
            for part in ComponentPart::ALL {
                let name = part.name(block);
                let of = |number: &usize| table.slots()[*number].parameters.get(&name);
                let parts: Vec<&Parameter> = numbers.iter().filter_map(of).collect();
                let rows: Vec<f32> =
                    parts.iter().flat_map(|part| part.values.iter().copied()).collect();
                let width = rows.len() / size.max(1);
                if rows.len() != size * width || parts.len() != numbers.len() {
                    return Err(PolicyError::Unsupported(format!(
                        "{} values of `{name}` for {} components",
                        rows.len(),
                        size
                    )));
                }
                if width > 0 {
                    let shape = parts.first().map(|part| part.shape.clone()).unwrap_or_default();
                    all.push((name, shape, weights.mix(&rows, width)));
                }
            }
        }
        for (name, shape, values) in all {
            let each = values.chunks_exact(shape.iter().product());
            for (number, values) in numbers.iter().zip(each) {
                let parameter = Parameter { shape: shape.clone(), values: values.into() };
                self.powder
                    .table_mut()
                    .slot_mut(*number)
                    .parameters
                    .insert(name.as_str(), parameter);
            }
        }
        Ok(())
    }
}

impl Server for C2PromptServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let downs = match C2Prompt::inner(round.phase) {
            Some(phase) => {
                let inner = RoundContext { phase, ..round.clone() };
                self.powder.broadcast(&inner, seats, lab)?
            }
            None if C2Prompt::asks(round.phase) => {
                return Ok(shared(closed(round.phase, Message::default()), seats));
            }
            None => self.gaussians(seats, lab)?,
        };
        // Every seat's is charged as a frame of its own.
        let close = |down| Arc::new(closed(round.phase, Arc::unwrap_or_clone(down)));
        Ok(downs.into_iter().map(close).collect())
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.figures.clear();
        let Some(folded) = folded else { return Ok(()) };
        let Some(phase) = C2Prompt::inner(round.phase) else {
            if C2Prompt::asks(round.phase) {
                let report = |kept: &Kept| -> Result<Report, PolicyError> {
                    let seat = &kept.meta.seat;
                    let (slot, classes) = (SlotKey::of(seat), classes_of(&seat.view, lab));
                    Ok(Report { slot, classes, moments: SlotMoments::read(&kept.update)? })
                };
                self.reports = folded.kept.iter().map(report).collect::<Result<_, _>>()?;
            }
            return Ok(());
        };
        let matched = |kept: &Kept| -> Result<Option<(SlotKey, Histogram)>, PolicyError> {
            let (seat, found) = (&kept.meta.seat, scores(&kept.update)?);
            let histogram = |scores| Histogram { classes: classes_of(&seat.view, lab), scores };
            Ok(found.map(|scores| (SlotKey::of(seat), histogram(scores))))
        };
        let matched = folded.kept.iter().filter_map(|kept| matched(kept).transpose());
        let matched: Vec<_> = matched.collect::<Result<_, _>>()?;
        let inner = RoundContext { phase, ..round.clone() };
        self.powder.end_round(&inner, Some(folded), lab)?;
        self.figures.extend(self.powder.figures());
        if matched.is_empty() { Ok(()) } else { self.aggregate(matched) }
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.powder.predictor(lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.figures.clone()
    }

    fn save(&self) -> Body {
        let mut body = self.powder.save();
        let mut tensors = Vec::new();
        for (place, Report { slot, classes, moments }) in self.reports.iter().enumerate() {
            let rows = [moments.counts.len(), moments.means.len() / moments.counts.len().max(1)];
            let about: Vec<u32> = [u32::from(slot.task.0), slot.client.0]
                .into_iter()
                .chain(classes.iter().copied())
                .collect();
            tensors.extend([
                NamedTensor::u32(format!("{place:05}/slot"), [about.len()], about),
                NamedTensor::f32(format!("{place:05}/means"), rows, moments.means.clone()),
                NamedTensor::f32(format!("{place:05}/variances"), rows, moments.variances.clone()),
                NamedTensor::u32(
                    format!("{place:05}/counts"),
                    [moments.counts.len()],
                    moments.counts.clone(),
                ),
            ]);
        }
        let tensors = tensors.into_iter().map(|tensor| tensor.expect("moments fill their shapes"));
        body.sections.push(Section::new(Kind::Prototypes, tensors.collect()));
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.powder.load(saved)?;
        let slots =
            saved.of_kind(Kind::Prototypes).filter(|tensor| tensor.name().ends_with("/slot"));
        let report = |place: usize| -> Result<Report, WireError> {
            let named = |name: &str| saved.tensor(Kind::Prototypes, &format!("{place:05}/{name}"));
            let about = named("slot")?.as_u32()?;
            let [task, client, classes @ ..] = &about[..] else {
                return Err(WireError::Malformed("a report belongs to no slot".to_owned()));
            };
            let slot = SlotKey { task: TaskId(*task as u16), client: ClientId(*client) };
            let moments = SlotMoments {
                means: named("means")?.as_f32()?.to_vec(),
                variances: named("variances")?.as_f32()?.to_vec(),
                counts: named("counts")?.as_u32()?.to_vec(),
            };
            Ok(Report { slot, classes: classes.to_vec(), moments })
        };
        self.reports = (0..slots.count()).map(report).collect::<Result<_, _>>()?;
        self.figures.clear();
        Ok(())
    }
}
