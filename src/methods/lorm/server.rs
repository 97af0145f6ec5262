//! The merge of a round: the regression mean of the factor that it trained.

use super::Lorm;
use super::memory::Tasks;
use crate::methods::averaging::{ClosedRound, RowPurpose, is_closing};
use crate::methods::parts::{Demands, ServerUpdate, TaskEnd, TransformUpload};
use crate::methods::regression::{Layer, Unseen, answer_in_place_of, answers, inverse, values_of};
use crate::model::{Factor, Parameter, ParameterSet, is_lora, lora_name};
use crate::numerics::regression_mean::regression_mean;
use crate::policy::{
    Capability, ExchangeFacts, MemoryFootprint, Message, MessageSpec, Metrics, ModelFacts,
    PolicyError, RoundContext, RunContext,
};
use crate::wire::{Kind, NamedTensor, Section};

impl TransformUpload for Lorm {
    fn layout(&self, facts: &ExchangeFacts<'_>, mut upload: MessageSpec) -> MessageSpec {
        let factor = self.trained(facts.round_in_phase);
        for (block, place, layer) in self.layers(facts.model) {
            // The input of B is the output of A, of width `rank`.
            let inputs = if factor == Factor::A { layer.inputs } else { self.rank as usize };
            let layer = Layer { inputs, ..layer };
            answer_in_place_of(&lora_name(block, place, factor), &layer, &mut upload);
        }
        let head = Layer::head(facts.model);
        answer_in_place_of(&head.weight, &head, &mut upload);
        upload
    }

    fn transform(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        mut upload: Message,
    ) -> Result<Message, PolicyError> {
        let factor = self.trained(facts.round_in_phase);
        let mut products: Vec<NamedTensor> = Vec::new();
        for (block, place, layer) in self.layers(facts.model) {
            let moments = self.statistics.sent(&layer, &upload)?;
            let (own, rows) = values_of(&upload.parameters, &lora_name(block, place, factor))?;
            products.push(match factor {
                Factor::A => answers(&layer, (&own, rows), &moments)?,
                Factor::B => {
                    let a = lora_name(block, place, Factor::A);
                    let moments = moments.through(&values_of(&sent.parameters, &a)?.0);
                    let layer = Layer { inputs: self.rank as usize, ..layer };
                    answers(&layer, (&own, rows), &moments)?
                }
            });
        }
        let head = Layer::head(facts.model);
        let (own, rows) = values_of(&upload.parameters, &head.weight)?;
        products.push(answers(&head, (&own, rows), &self.statistics.sent(&head, &upload)?)?);
        upload.extra.push(Section::new(Kind::Statistics, products));
        Ok(upload)
    }

    fn demands(&self) -> Demands {
        let why = "its server multiplies the factors of each client by that client's own moments";
        Demands::restricting(&[Capability::SecureAggregation], why)
    }
}

impl ServerUpdate<Tasks> for Lorm {
    fn server_update(
        &self,
        _tasks: &mut Tasks,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let ClosedRound { model, shared, before, aggregate, round, .. } = closing;
        let factor = self.trained(round.round_in_phase);
        for (block, place, layer) in self.layers(model) {
            let name = lora_name(block, place, factor);
            let Some(Parameter { shape, .. }) = before.get(&name).cloned() else { continue };
            let total = self.statistics.total(&layer, &aggregate)?;
            let precision = self.statistics.precision(&layer);
            let (total, rounding) = match factor {
                Factor::A => {
                    let rounding = total.rounding(precision);
                    (total, rounding)
                }
                Factor::B => {
                    let (a, _) = values_of(before, &lora_name(block, place, Factor::A))?;
                    (total.through(&a), total.rounding_through(&a, precision))
                }
            };
            let merged = regression_mean(aggregate.sum(&layer.answers())?, &total, rounding)?;
            let values = merged.into_iter().map(|value| value as f32).collect();
            theta.insert(name, Parameter { shape, values });
        }
        let rows = shared.cut(model, &round.stage.view, RowPurpose::Up).head;
        let head = (&Layer::head(model), rows);
        self.statistics.merge(head, Unseen::Zero, (before, &aggregate), theta)?;
        Ok(Vec::new())
    }

    fn end_task(
        &self,
        tasks: &mut Tasks,
        theta: &ParameterSet,
        _end: TaskEnd<'_>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        tasks.finish(theta.filter(is_lora));
        Ok(())
    }

    /// Returns the work of aggregating the factors of every update and the head.
    ///
    /// Each factor is multiplied by its client's moments. At the end of a task the products of its `A` are computed
    /// and, from the second task on, the merge of all tasks' `A`.
    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let (rank, tasks) = (self.rank as usize, round.stage.task.index() + 1);
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        let (product, solving) = (
            |layer: &Layer| self.statistics.product(layer, rank),
            |layer: &Layer| self.statistics.solving(layer, rank),
        );
        if is_closing(round.phase) {
            let merged = if tasks > 1 { tasks as f64 } else { 0.0 };
            return model.passes(blocks.map(|l| product(&l) + merged * solving(&l)).sum());
        }
        let updates = updates as f64;
        let of = |layer: Layer| match self.trained(round.round_in_phase) {
            Factor::A => updates * product(&layer) + solving(&layer),
            Factor::B => {
                // The input of B is the output of A, of width `rank`.
                let through = product(&layer) + (rank * rank * layer.inputs) as f64;
                let own = (layer.outputs * rank * rank) as f64;
                updates * (through + own) + through + inverse(rank) + own
            }
        };
        let head = Layer::head(model);
        let answers = self.statistics.product(&head, head.outputs);
        let head = updates * answers + self.statistics.solving(&head, head.outputs);
        model.passes(blocks.map(of).sum::<f64>() + head)
    }

    /// Returns the memory of the server's state.
    ///
    /// Parameters and the pairs of all tasks are f32; products and moments of tasks, and the sums of a round, f64.
    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let count = |shapes: Vec<(String, Vec<usize>)>| -> usize {
            shapes.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
        };
        let (pair, tasks) = (count(self.shape(model).shapes()), model.tasks.max(1));
        let head = model.classes * (model.backbone.dim() + 1);
        let inputs = self.layers(model).iter().map(|(_, _, layer)| layer.inputs).sum::<usize>();
        let moments = |layers: Vec<Layer>| -> usize {
            layers.iter().map(|layer| self.statistics.numbers(layer)).sum()
        };
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer).collect();
        let of_tasks = tasks * inputs * self.rank as usize + moments(blocks);
        let of_round = moments(self.measured(model)) + pair + head;
        let server = 4 * (pair * (tasks + 1) + head) + 8 * (of_tasks + of_round);
        Some(MemoryFootprint { server: server as u64, client: 0 })
    }
}
