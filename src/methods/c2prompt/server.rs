//! C2Prompt's server: Powder's, with Gaussians of classes and class-aware aggregation of components.

use std::sync::Arc;

use super::affinity::{Histogram, affinity};
use super::messages::Down;
use super::moments::{Gaussians, SlotMoments, pooled};
use super::{C2Part, C2Prompt};
use crate::data::TaskView;
use crate::learning::prompting::ComponentPart;
use crate::methods::powder::{PowderServer, SlotKey};
use crate::model::Parameter;
use crate::policy::{Lab, Next, PolicyError, Predictor, RoundContext, Seat, ServerPolicy, shared};
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
    fn gaussians(&self, seats: &[Seat], lab: &Lab) -> Result<Vec<Arc<Down>>, PolicyError> {
        let dim = lab.backbone.dim();
        let reports: Vec<(&[u32], &SlotMoments)> =
            self.reports.iter().map(|report| (&report.classes[..], &report.moments)).collect();
        let pooled = pooled(&reports, dim)?;
        let of = |seat: &Seat| {
            let classes = classes_of(&seat.view, lab);
            Arc::new(Down::Gaussians(Gaussians::of(&classes, &pooled, dim)))
        };
        Ok(seats.iter().map(of).collect())
    }

    /// Mixes the components of slots that were trained in a round.
    fn aggregate(&mut self, slots: &[(SlotKey, Vec<u32>, Vec<f32>)]) -> Result<(), PolicyError> {
        let shape = &self.method.powder.shape;
        let table = self.powder.table();
        let numbers: Vec<usize> = slots.iter().filter_map(|slot| table.find(slot.0)).collect();
        let histograms: Vec<Histogram> = slots
            .iter()
            .map(|(_, classes, scores)| Histogram {
                classes: classes.clone(),
                scores: scores.clone(),
            })
            .collect();
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

impl ServerPolicy<C2Prompt> for C2PromptServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        match C2Prompt::inner(round.phase) {
            Some(phase) => {
                let inner = RoundContext { phase, ..round.clone() };
                let downs = self.powder.broadcast(&inner, seats, lab)?;
                let wrapped = |down: Arc<_>| Arc::new(Down::Powder(Arc::unwrap_or_clone(down)));
                Ok(downs.into_iter().map(wrapped).collect())
            }
            None if C2Prompt::asks(round.phase) => Ok(shared(Down::Ask, seats)),
            None => self.gaussians(seats, lab),
        }
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<C2Part>,
        lab: &Lab,
    ) -> Result<Next, PolicyError> {
        self.figures.clear();
        let Some(C2Part { powder, histograms, moments }) = folded else {
            return Ok(Next::Continue);
        };
        if C2Prompt::asks(round.phase) {
            let report =
                |(_, (slot, view, moments)): (_, (SlotKey, Arc<TaskView>, SlotMoments))| Report {
                    slot,
                    classes: classes_of(&view, lab),
                    moments,
                };
            self.reports = moments.0.into_iter().map(report).collect();
        }
        if let Some(phase) = C2Prompt::inner(round.phase) {
            let inner = RoundContext { phase, ..round.clone() };
            self.powder.end_round(&inner, Some(powder), lab)?;
            self.figures.extend(self.powder.figures());
        }
        let slot = |(_, (slot, view, scores)): (_, (SlotKey, Arc<TaskView>, Vec<f32>))| {
            (slot, classes_of(&view, lab), scores)
        };
        let slots: Vec<_> = histograms.0.into_iter().map(slot).collect();
        if !slots.is_empty() {
            self.aggregate(&slots)?;
        }
        Ok(Next::Continue)
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
