//! Walks through a run that is never computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::exchange::{Exchange, ends};
use super::frame::{FrameRange, PlannedFrame};
use super::secret::Protocol;
use super::{Backbone, Plan, PlannedPhase, Total};
use crate::data::Curriculum;
use crate::experiment::ExperimentError;
use crate::experiment::assemble::{Holders, TaskCounts};
use crate::federation::clock::Clock;
use crate::federation::links::{Links, Transfer};
use crate::federation::privacy::Room;
use crate::federation::{Direction, FaultRules, FederationError, Population, Rules, participation};
use crate::learning::TrainingPlan;
use crate::policy::{
    AnyMethod, ClassCounts, CohortRule, ModelFacts, Period, Phase, SketchFacts, UpSize,
    one_seat_each, summand_sketch,
};
use crate::quantity::{ClientId, Round, VirtualTime};
use crate::wire::{CodecPlan, FrameSize};

/// A run as far as it is known without data and weights.
pub struct Blueprint {
    /// Name of the scenario.
    pub name: String,
    /// Name of the method.
    pub method_name: String,
    /// The method.
    pub method: Arc<dyn AnyMethod>,
    /// What sketches are made from.
    pub facts: ModelFacts,
    /// Class order and tasks.
    pub curriculum: Arc<Curriculum>,
    /// Training samples of every class id.
    pub class_sizes: Vec<usize>,
    /// Who holds them.
    pub holders: Holders,
    /// Who is asked, how long things take.
    pub rules: Rules,
    /// Local training.
    pub training: TrainingPlan,
    /// Codecs of messages to clients.
    pub down: CodecPlan,
    /// Codecs of messages to the server.
    pub up: CodecPlan,
    /// Whether messages cross a link at all.
    pub charged: bool,
}

/// Walks through the run.
pub fn plan(blueprint: &Blueprint) -> Result<Plan, ExperimentError> {
    let rules = &blueprint.rules;
    let mut walk = Walk {
        of: blueprint,
        clock: Clock::new(rules.compute.clone(), rules.seed),
        // Every client answers: nothing is lost, whatever the scenario's faults are.
        links: Links::new(rules.links.clone(), FaultRules::default(), rules.seed),
        round: Round(0),
        total: Total::default(),
    };
    let mut phases = Vec::new();
    for view in &blueprint.curriculum.tasks {
        let tasks = blueprint.curriculum.tasks.len();
        let period = Period { task: view.task, tasks, view: Arc::clone(view) };
        let counts = blueprint.holders.counts(view, &blueprint.class_sizes)?;
        let mut met = BTreeSet::new();
        let listed = blueprint.method.phases(&period, blueprint.rules.rounds);
        for (index, phase) in listed.into_iter().enumerate() {
            phases.push(walk.phase(&period, index, &phase, &counts, &mut met)?);
        }
    }
    let backbone = &blueprint.facts.backbone;
    let [channels, image, _] = backbone.input();
    Ok(Plan {
        name: blueprint.name.clone(),
        method: blueprint.method_name.clone(),
        backbone: Backbone {
            kind: backbone.kind(),
            channels,
            image,
            patch: backbone.vit().map(|vit| vit.patch),
            dim: backbone.dim(),
            depth: backbone.vit().map(|vit| vit.depth),
            parameters: backbone.parameter_count(),
        },
        clients: blueprint.rules.clients,
        classes: blueprint.curriculum.classes(),
        samples: blueprint.class_sizes.iter().sum(),
        charged: blueprint.charged,
        phases,
        total: walk.total,
    })
}

struct Walk<'a> {
    of: &'a Blueprint,
    clock: Clock,
    links: Links,
    round: Round,
    total: Total,
}

impl Walk<'_> {
    fn phase(
        &mut self,
        period: &Period,
        index: usize,
        phase: &Phase,
        counts: &TaskCounts,
        met: &mut BTreeSet<ClientId>,
    ) -> Result<PlannedPhase, ExperimentError> {
        let mut row = PlannedPhase {
            task: u32::from(period.task.0) + 1,
            new_classes: period.view.rows.len(),
            seen_classes: period.view.seen(),
            phase: phase.name,
            rounds: phase.rounds.limit(),
            seats: 0,
            samples: 0,
            down: FrameRange::default(),
            up: FrameRange::default(),
            protocol_down: FrameRange::default(),
            protocol_up: FrameRange::default(),
            up_size: UpSize::Static,
            virtual_s: 0.0,
        };
        let mut protocol = Protocol::default();
        for round_in_phase in 0..phase.rounds.limit() {
            let cohort = self.cohort(phase.cohort, period, counts, met)?;
            let seats = one_seat_each(period, &cohort);
            let secure = self.of.rules.privacy.secure.as_ref().filter(|_| self.of.charged);
            let links = self.links.clone();
            let room =
                secure.map(|rules| Room { links: &links, round: self.round, seats: &seats, rules });
            let start = room.map_or(VirtualTime::ZERO, |room| protocol.introduce(&room));
            let mut exchanges = Vec::with_capacity(cohort.len());
            for client in cohort {
                let held = counts.of(client, &self.of.class_sizes);
                exchanges.push(self.seat(period, index, round_in_phase, client, &held, &mut row));
                met.insert(client);
            }
            let ends = ends(start, &exchanges, &self.links);
            let end = ends.into_iter().max().unwrap_or_default();
            let end = room.map_or(end, |room| protocol.unmask(&room, end));
            row.virtual_s += end.as_seconds();
            self.total.rounds += 1;
            self.round = Round(self.round.0 + 1);
        }
        self.total.virtual_s += row.virtual_s;
        self.total.training_jobs += row.seats;
        (row.protocol_down, row.protocol_up) = (protocol.down, protocol.up);
        for range in [&row.down, &row.up, &row.protocol_down, &row.protocol_up] {
            self.total.control += range.sum.control;
            self.total.raw += range.sum.raw;
            for (kind, bytes) in &range.sum.kinds {
                *self.total.kinds.entry(kind.clone()).or_default() += bytes;
            }
        }
        self.total.down += row.down.sum.frame + row.protocol_down.sum.frame;
        self.total.up += row.up.sum.frame + row.protocol_up.sum.frame;
        Ok(row)
    }

    fn cohort(
        &self,
        rule: CohortRule,
        period: &Period,
        counts: &TaskCounts,
        met: &BTreeSet<ClientId>,
    ) -> Result<Vec<ClientId>, ExperimentError> {
        let rules = &self.of.rules;
        Ok(match rule {
            CohortRule::Sampled => participation::cohort(
                &rules.participation,
                rules.clients,
                rules.seed,
                period.task,
                self.round,
            ),
            CohortRule::Participants => met.iter().copied().collect(),
            // As the run refuses it.
            CohortRule::Holders if rules.participation.population == Population::Fresh => {
                return Err(FederationError::Impossible(
                    "this method asks every client that holds data, and a fresh population has \
                     no end of them; set participation.population = \"fixed\""
                        .into(),
                )
                .into());
            }
            CohortRule::Holders => (0..rules.clients)
                .map(ClientId)
                .filter(|client| !counts.of(*client, &self.of.class_sizes).is_empty())
                .collect(),
        })
    }

    /// One exchange with one client.
    fn seat(
        &mut self,
        period: &Period,
        phase: usize,
        round_in_phase: u32,
        client: ClientId,
        counts: &ClassCounts,
        row: &mut PlannedPhase,
    ) -> Exchange {
        let facts = SketchFacts {
            model: &self.of.facts,
            view: &period.view,
            phase,
            round_in_phase,
            counts,
        };
        let sketch = self.of.method.sketch(&facts);
        let samples: u32 = counts.values().sum();
        let passes = self.of.method.work(phase, samples as usize, &self.of.training);
        row.seats += 1;
        row.samples += u64::from(samples);
        row.up_size = sketch.up_size;
        self.total.sample_passes += passes;
        if !self.of.charged {
            return Exchange::free();
        }
        let down = PlannedFrame::from(&FrameSize::of_sketch(&sketch.down, &self.of.down));
        let up = match &self.of.rules.privacy.secure {
            Some(rules) => {
                let masked = summand_sketch(&sketch.up, rules.numbers.modulus.dtype());
                FrameSize::of_sketch(&masked, &CodecPlan::default())
            }
            None => FrameSize::of_sketch(&sketch.up, &self.of.up),
        };
        let up = PlannedFrame::from(&up);
        let travel = |direction, bytes| {
            let transfer = Transfer { client, round: self.round, unit: 0, frame: 0, direction };
            self.links.send(transfer, bytes)
        };
        let exchange = Exchange {
            down: travel(Direction::Down, down.frame),
            work: self.clock.work(client, self.round, 0, passes),
            up: travel(Direction::Up, up.frame),
        };
        row.down.add(down);
        row.up.add(up);
        exchange
    }
}
