//! HePCo's server: averages, then repairs the average on pseudo-queries.

use std::sync::Arc;

use super::consolidation::{Consolidation, Local, Previous, Value};
use super::messages::Down;
use super::{Hepco, HepcoPart};
use crate::data::TaskView;
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Lab, Next, Period, PolicyError, Predictor, RoundContext, Seat, ServerPolicy,
    parameter_sections, parameters_of, shared,
};
use crate::wire::{Body, MetaReader, MetaWriter, WireError};

/// What the server knows. Generators live for a round.
pub struct HepcoServer {
    pub(super) method: Arc<Hepco>,
    /// Pools and head.
    pub(super) parameters: ParameterSet,
    /// Samples reported in all rounds so far, by head row.
    pub(super) counts: Vec<u64>,
    /// From the second task on.
    pub(super) previous: Option<Previous>,
    /// Of the last round.
    pub(super) figures: Vec<(&'static str, f64)>,
}

impl HepcoServer {
    /// Steps 3 to 6 of a round.
    fn consolidate(
        &mut self,
        view: &TaskView,
        clients: &[Local],
        key: StreamKey,
    ) -> Result<(), PolicyError> {
        let Hepco { base, config } = &*self.method;
        if !config.consolidates() {
            return Ok(());
        }
        let (settings, previous) = ((config, base.shape), self.previous.as_ref());
        let found = Consolidation::new(settings, view, &self.parameters, clients, previous, key)?;
        let Some(consolidation) = found else { return Ok(()) };
        let generators = consolidation.generators()?;
        let Value { heads, distance } = generators.new_value;
        let mut figures = vec![
            ("generator_classification", heads.classification),
            ("generator_divergence", heads.divergence),
            ("generator_distance", distance),
        ];
        if let Some((_, Value { heads, distance })) = generators.old {
            figures.push(("old_generator_classification", heads.classification));
            figures.push(("old_generator_divergence", heads.divergence));
            figures.push(("old_generator_distance", distance));
        }
        let mut moved = ParameterSet::new();
        if config.prompt_steps > 0 {
            let prompts = consolidation.prompts(&generators)?;
            figures.push(("prompt_distillation_loss", prompts.loss));
            take(&mut moved, &prompts.parameters);
        }
        if config.head_steps > 0 {
            let head = consolidation.head(&generators)?;
            figures.push(("head_distillation_loss", head.loss));
            take(&mut moved, &head.parameters);
        }
        take(&mut self.parameters, &moved);
        self.figures = figures;
        Ok(())
    }
}

fn take(into: &mut ParameterSet, from: &ParameterSet) {
    from.iter().for_each(|(name, parameter)| into.insert(Arc::clone(name), parameter.clone()));
}

impl ServerPolicy<Hepco> for HepcoServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        let base = &self.method.base;
        let rows = base.config.head.down_rows(&round.period.view, base.classes());
        Ok(shared(Down::cut(&self.parameters, rows)?, seats))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<HepcoPart>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        self.figures.clear();
        let Some(HepcoPart { average, clients }) = folded else { return Ok(Next::Continue) };
        self.parameters = average.apply(&self.parameters);
        let clients: Vec<Local> = clients.0.into_iter().map(|(_, client)| client).collect();
        for client in &clients {
            let counts = self.counts.iter_mut().zip(&client.counts);
            counts.for_each(|(sum, count)| *sum += u64::from(*count));
        }
        self.consolidate(&round.period.view, &clients, round.key(Domain::Method))?;
        Ok(Next::Continue)
    }

    fn end_period(&mut self, _period: &Period, _lab: &Lab) -> Result<(), PolicyError> {
        let (parameters, counts) = (self.parameters.clone(), self.counts.clone());
        self.previous = Some(Previous { parameters, counts });
        Ok(())
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.method.base.shape.predictor(&self.parameters, lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.figures.clone()
    }

    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        put(&mut meta, &self.counts);
        put(&mut meta, self.previous.as_ref().map_or(&[], |previous| &previous.counts));
        let mut sections = parameter_sections(&self.parameters);
        if let Some(previous) = &self.previous {
            let renamed = |(name, parameter): (&Arc<str>, &Parameter)| {
                (format!("{PREVIOUS}{name}"), parameter.clone())
            };
            let renamed: ParameterSet = previous.parameters.iter().map(renamed).collect();
            sections.extend(parameter_sections(&renamed));
        }
        Body::new(meta.finish(), sections)
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (counts, previous) = (counts_in(&mut meta)?, counts_in(&mut meta)?);
        meta.finish()?;
        let all = parameters_of(saved)?;
        self.parameters = all.filter(|name| !name.starts_with(PREVIOUS));
        self.counts = counts;
        let own = |(name, parameter): (&Arc<str>, &Parameter)| {
            Some((name.strip_prefix(PREVIOUS)?.to_owned(), parameter.clone()))
        };
        self.previous = (!previous.is_empty()).then(|| Previous {
            parameters: all.iter().filter_map(own).collect(),
            counts: previous,
        });
        self.figures.clear();
        Ok(())
    }
}

fn put(meta: &mut MetaWriter, counts: &[u64]) {
    meta.u64(counts.len() as u64);
    counts.iter().for_each(|count| {
        meta.u64(*count);
    });
}

fn counts_in(meta: &mut MetaReader<'_>) -> Result<Vec<u64>, WireError> {
    let rows = meta.u64()?;
    (0..rows).map(|_| meta.u64()).collect()
}

/// Before the names of the previous server's parameters in a saved state.
const PREVIOUS: &str = "previous.";
