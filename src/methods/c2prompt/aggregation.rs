//! Class-aware prompt aggregation (CPA) on the server.
//!
//! Components of the client tasks that a round trained are mixed with those that match the same classes, whichever
//! client owns them.

use super::affinity::{Histogram, affinity};
use super::server::C2PromptServer;
use crate::learning::prompting::ComponentPart;
use crate::methods::powder::ClientTaskKey;
use crate::model::Parameter;
use crate::numerics::affinity::{MeanCosines, mean_cosines};
use crate::policy::{PolicyError, RoundContext, RunContext};

/// One part (key, attention or tokens) of the components of all client tasks in a block.
struct Stack {
    name: String,
    /// Shape of the part in one client task.
    shape: Vec<usize>,
    /// Values of all client tasks, component by component.
    rows: Vec<f32>,
}

impl C2PromptServer {
    /// Returns true if components are mixed after a round of training.
    ///
    /// After the last round of a stage they are mixed only with `cpa_last`: no client adapts its head to the mixed
    /// prompts.
    pub(super) fn mixes_after(&self, round: &RoundContext) -> bool {
        let config = &self.method.config;
        config.cpa && (config.cpa_last || round.round_in_phase + 1 < round.rounds_in_phase)
    }

    /// Mixes the components of the client tasks that a round trained, by the classes that they match.
    pub(super) fn aggregate(
        &mut self,
        matched: Vec<(ClientTaskKey, Histogram)>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let (keys, histograms): (Vec<ClientTaskKey>, Vec<Histogram>) = matched.into_iter().unzip();
        let table = self.powder.table();
        let client_tasks: Vec<usize> = keys.into_iter().filter_map(|key| table.find(key)).collect();
        let config = &self.method.config;
        let weights = affinity(&histograms, config.cpa_scores, config.cpa_temperature);
        self.metrics.extend([
            ("cpa_own_weight", weights.own_weight()),
            ("cpa_kept_rows", weights.unmatched().len() as f64),
        ]);
        self.note_accuracy("cpa_accuracy_before", &client_tasks, ctx)?;
        let mut stacks = self.stacks(&client_tasks, weights.size())?;
        for Stack { rows, .. } in &mut stacks {
            *rows = weights.mix(rows, rows.len() / weights.size());
        }
        self.note_cosines(&stacks);
        for Stack { name, shape, rows } in stacks {
            let each = rows.chunks_exact(shape.iter().product());
            for (client_task, values) in client_tasks.iter().zip(each) {
                let parameter = Parameter { shape: shape.clone(), values: values.into() };
                let client_task = self.powder.table_mut().entry_mut(*client_task);
                client_task.parameters.insert(name.as_str(), parameter);
            }
        }
        self.note_accuracy("cpa_accuracy_after", &client_tasks, ctx)
    }

    /// Returns keys, attention and tokens of these client tasks, of `components` components in total.
    fn stacks(&self, client_tasks: &[usize], components: usize) -> Result<Vec<Stack>, PolicyError> {
        let mut stacks = Vec::new();
        for block in self.method.powder.shape.blocks.clone() {
            for part in ComponentPart::ALL {
                let name = part.name(block);
                let of = |client_task: &usize| {
                    self.powder.table().entries()[*client_task].parameters.get(&name)
                };
                let parts: Vec<&Parameter> = client_tasks.iter().filter_map(of).collect();
                let rows: Vec<f32> =
                    parts.iter().flat_map(|part| part.values.iter().copied()).collect();
                let rest = rows.len() % components.max(1);
                if rest != 0 || parts.len() != client_tasks.len() {
                    return Err(PolicyError::Unsupported(format!(
                        "{} values of `{name}` for {components} components",
                        rows.len(),
                    )));
                }
                let shape = parts.first().map(|part| part.shape.clone()).unwrap_or_default();
                if !rows.is_empty() {
                    stacks.push(Stack { name, shape, rows });
                }
            }
        }
        Ok(stacks)
    }

    /// Adds the mean cosines between the tokens of mixed components, over blocks, to the metrics.
    ///
    /// With fewer than two components there is nothing to compare, and no metric.
    fn note_cosines(&mut self, stacks: &[Stack]) {
        let shape = &self.method.powder.shape;
        let tokens: Vec<String> =
            shape.blocks.clone().map(|block| ComponentPart::Prompt.name(block)).collect();
        let (own, width) = (shape.components, shape.length * shape.dim);
        let found: Vec<MeanCosines> = (stacks.iter())
            .filter(|stack| tokens.contains(&stack.name))
            .map(|stack| mean_cosines(&stack.rows, width, own))
            .collect();
        let mean = |of: fn(&MeanCosines) -> Option<f64>| {
            let known: Vec<f64> = found.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        let cosines = [
            ("cpa_cosine_within", mean(|found| found.within)),
            ("cpa_cosine_between", mean(|found| found.between)),
        ];
        self.metrics.extend(cosines.into_iter().filter_map(|(name, mean)| Some((name, mean?))));
    }

    fn note_accuracy(
        &mut self,
        name: &'static str,
        client_tasks: &[usize],
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        if self.method.config.cpa_accuracy {
            let accuracy = self.accuracy(client_tasks, ctx)?;
            self.metrics.extend(accuracy.map(|accuracy| (name, accuracy)));
        }
        Ok(())
    }
}
