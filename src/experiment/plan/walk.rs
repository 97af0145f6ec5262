//! Walks through a run that is never computed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::exchange::{Busy, Exchange, arrivals};
use super::frame::{FrameRange, PlannedFrame};
use super::seats::{Place, PlannedSeat, seats};
use super::secret::Protocol;
use super::underway::Underway;
use super::{Backbone, OneClient, Plan, PlannedPhase, Total};
use crate::data::Curriculum;
use crate::experiment::ExperimentError;
use crate::experiment::assemble::{Holders, TaskCounts};
use crate::federation::arrivals::{Arrivals, Moment};
use crate::federation::assets::AssetCaches;
use crate::federation::availability::{Availability, Cohort, Pattern};
use crate::federation::clock::Clock;
use crate::federation::links::{Fate, Links, Transfer};
use crate::federation::privacy::{Room, summands};
use crate::federation::{Direction, FaultRules, FederationError, Population, Rules, participation};
use crate::learning::TrainingPlan;
use crate::policy::{
    CohortRule, Method, ModelFacts, Period, Phase, Seat, SeatKind, SketchFacts, UpSize,
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
    pub method: Arc<dyn Method>,
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
        availability: availability(blueprint)?,
        arrivals: Arrivals::new(
            rules.arrivals.clone(),
            rules.seed,
            rules.clients,
            blueprint.curriculum.tasks.len(),
        ),
        now: VirtualTime::ZERO,
        began: Vec::new(),
        done: 0,
        rounds: 0,
        busy: Busy::new(),
        underway: Underway::new(rules.closing),
        round: Round(0),
        caches: AssetCaches::new(rules.cache),
        uploads: BTreeMap::new(),
        total: Total::default(),
    };
    let (mut phases, mut counts) = (Vec::new(), Vec::new());
    for view in &blueprint.curriculum.tasks {
        walk.now = walk.now.max(walk.arrivals.due(view.task));
        walk.began.push(walk.now);
        let tasks = blueprint.curriculum.tasks.len();
        let period = Period::of(Arc::clone(view), tasks);
        counts.push(blueprint.holders.counts(view, &blueprint.class_sizes)?);
        let mut met = BTreeSet::new();
        walk.caches.begin_task();
        let listed = blueprint.method.phases(&period, blueprint.rules.rounds);
        walk.done = 0;
        walk.rounds = listed.iter().map(|phase| phase.rounds).sum();
        let held = |(_, phase): &(usize, Phase)| phase.rounds > 0;
        for (index, phase) in listed.into_iter().enumerate().filter(held) {
            phases.push(walk.phase(&period, index, &phase, &counts, &mut met)?);
        }
    }
    let backbone = &blueprint.facts.backbone;
    let [channels, _, image] = backbone.input();
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
        one_client: walk.one_client(),
        total: walk.total,
    })
}

/// Availability may depend on what clients hold over all tasks.
fn availability(blueprint: &Blueprint) -> Result<Availability, ExperimentError> {
    let rules = &blueprint.rules;
    let mut samples = Vec::new();
    if matches!(rules.availability.pattern, Pattern::ByData { .. }) {
        samples = vec![0; rules.clients as usize];
        for view in &blueprint.curriculum.tasks {
            let counts = blueprint.holders.counts(view, &blueprint.class_sizes)?;
            for (client, sum) in samples.iter_mut().enumerate() {
                let held = counts.of(ClientId(client as u32), &blueprint.class_sizes);
                *sum += held.values().map(|count| u64::from(*count)).sum::<u64>();
            }
        }
    }
    Ok(Availability::new(rules.availability.clone(), rules.seed, samples))
}

struct Walk<'a> {
    of: &'a Blueprint,
    clock: Clock,
    links: Links,
    availability: Availability,
    arrivals: Arrivals,
    now: VirtualTime,
    /// When the periods so far began.
    began: Vec<VirtualTime>,
    /// Rounds of the period, over and in all.
    done: u32,
    rounds: u32,
    busy: Busy,
    underway: Underway,
    round: Round,
    caches: AssetCaches,
    /// Uploads by name of the phase and client.
    uploads: BTreeMap<&'static str, BTreeMap<ClientId, FrameRange>>,
    total: Total,
}

impl Walk<'_> {
    fn phase(
        &mut self,
        period: &Period,
        index: usize,
        phase: &Phase,
        counts: &[TaskCounts],
        met: &mut BTreeSet<ClientId>,
    ) -> Result<PlannedPhase, ExperimentError> {
        let mut row = PlannedPhase {
            task: u32::from(period.task.0) + 1,
            new_classes: period.view.rows.len(),
            seen_classes: period.view.seen(),
            phase: phase.name,
            rounds: phase.rounds,
            seats: 0,
            samples: 0,
            assets: FrameRange::default(),
            down: FrameRange::default(),
            up: FrameRange::default(),
            protocol_down: FrameRange::default(),
            protocol_up: FrameRange::default(),
            up_size: UpSize::Static,
            virtual_s: 0.0,
        };
        let mut protocol = Protocol::default();
        let began = self.now;
        for round_in_phase in 0..phase.rounds {
            let cohort = self.cohort(phase.cohort, period, &counts[counts.len() - 1], met)?;
            let period = &self.period_of_round(period, &cohort);
            let place = Place { period, phase: index, name: phase.name, round_in_phase };
            let seats = seats(self.of, &place, &cohort, counts);
            met.extend(cohort);
            let seated: Vec<Seat> = seats.iter().map(|planned| planned.seat.clone()).collect();
            let secure = self.of.rules.privacy.secure.as_ref().filter(|_| self.of.charged);
            let links = self.links.clone();
            let room = secure.map(|rules| Room {
                links: &links,
                round: self.round,
                seats: &seated,
                rules,
            });
            let start = room.map_or(VirtualTime::ZERO, |room| protocol.introduce(&room));
            let exchanges: Vec<Exchange> =
                seats.iter().map(|seat| self.exchange(&place, seat, &mut row)).collect();
            let times = (self.now, start);
            let arrivals = arrivals(times, &exchanges, &self.links, &mut self.busy);
            let working = seated.iter().filter(|seat| seat.works()).count();
            let closing = self.of.rules.closing_of(phase, working);
            let awaited = seated.iter().zip(&arrivals);
            let awaited = awaited.filter(|(seat, _)| closing.waits_for_all() || seat.works());
            let awaited: Vec<_> = awaited.map(|(seat, at)| (seat.client, *at)).collect();
            let end = self.underway.close(&closing, (self.round, self.now), &awaited);
            let end = room.map_or(end, |room| protocol.unmask(&room, &arrivals, end));
            self.now = self.now + end;
            self.total.rounds += 1;
            self.done += 1;
            self.round = Round(self.round.0 + 1);
        }
        self.underway.clear();
        row.virtual_s = VirtualTime(self.now.0 - began.0).as_seconds();
        self.total.virtual_s += row.virtual_s;
        (row.protocol_down, row.protocol_up) = (protocol.down, protocol.up);
        for range in [&row.assets, &row.down, &row.up, &row.protocol_down, &row.protocol_up] {
            self.total.control += range.sum.control;
            self.total.raw += range.sum.raw;
            for (kind, bytes) in &range.sum.kinds {
                *self.total.kinds.entry(kind.clone()).or_default() += bytes;
            }
        }
        let down = [&row.assets, &row.down, &row.protocol_down];
        self.total.down += down.iter().map(|range| range.sum.frame).sum::<u64>();
        self.total.up += row.up.sum.frame + row.protocol_up.sum.frame;
        Ok(row)
    }

    /// As a run does it.
    fn period_of_round(&self, period: &Period, cohort: &[ClientId]) -> Period {
        if self.arrivals.is_global() {
            return period.clone();
        }
        let (began, now) = (&self.began, self.now);
        let moment = Moment { began, now, round: self.done, rounds: self.rounds };
        let rules = &self.of.rules;
        let load = rules.load_clients().map(|client| rules.holder(client));
        let own = cohort.iter().copied().chain(load);
        let own = self.arrivals.own_views(&self.of.curriculum, period, own, &moment);
        period.clone().with_own(own)
    }

    /// Those who are asked, as soon as anybody can be.
    fn cohort(
        &mut self,
        rule: CohortRule,
        period: &Period,
        counts: &TaskCounts,
        met: &BTreeSet<ClientId>,
    ) -> Result<Vec<ClientId>, ExperimentError> {
        loop {
            match self.present(rule, period, counts, met)? {
                Cohort::Now(cohort) => return Ok(cohort),
                Cohort::Later(until) => self.now = until,
                Cohort::Never => {
                    return Err(FederationError::Impossible(format!(
                        "after {} no client can ever be reached; let them stay longer, or plan \
                         fewer rounds",
                        self.now
                    ))
                    .into());
                }
            }
        }
    }

    fn present(
        &self,
        rule: CohortRule,
        period: &Period,
        counts: &TaskCounts,
        met: &BTreeSet<ClientId>,
    ) -> Result<Cohort, ExperimentError> {
        let rules = &self.of.rules;
        let everybody_of = |list: Vec<ClientId>| {
            self.availability.present(list.iter().copied(), list.len(), self.now)
        };
        Ok(match rule {
            CohortRule::Sampled => participation::present(
                &rules.participation,
                rules.clients,
                rules.seed,
                (period.task, self.round),
                (&self.availability, self.now),
                &self.underway.busy(),
            ),
            CohortRule::Participants => everybody_of(met.iter().copied().collect()),
            CohortRule::Holders if rules.participation.population == Population::Fresh => {
                return Err(participation::endless().into());
            }
            CohortRule::Holders => everybody_of(
                (0..rules.clients)
                    .map(ClientId)
                    .filter(|client| !counts.of(*client, &self.of.class_sizes).is_empty())
                    .collect(),
            ),
        })
    }

    /// One exchange of one seat.
    fn exchange(
        &mut self,
        place: &Place<'_>,
        PlannedSeat { seat, counts }: &PlannedSeat,
        row: &mut PlannedPhase,
    ) -> Exchange {
        let facts = SketchFacts {
            model: &self.of.facts,
            view: &seat.view,
            phase: place.phase,
            round_in_phase: place.round_in_phase,
            counts,
        };
        let (down, up) = (self.of.method.down(&facts), self.of.method.up(&facts));
        let samples: u32 = counts.values().sum();
        let passes = {
            let plan = &self.of.training;
            self.of.method.work(&seat.view, place.phase, samples as usize, plan)
        };
        row.seats += 1;
        row.up_size = up.size;
        if seat.kind != SeatKind::Load {
            row.samples += u64::from(samples);
            self.total.training_jobs += 1;
            self.total.sample_passes += passes;
        }
        let client = seat.client;
        if !self.of.charged {
            return Exchange::free(client);
        }
        let (round, unit) = (self.round, seat.unit_in_keys());
        let travel = |direction, frame, bytes| {
            let transfer = Transfer { client, round, unit, frame, direction };
            self.links.send(transfer, bytes)
        };
        let mut before = Vec::new();
        for asset in &down.assets {
            let label = format!("{}@{}", asset.name, asset.version);
            let digest = key_of(&label);
            if self.caches.lacks(client, digest) {
                let size = FrameSize::of_sketch(&asset.body, &CodecPlan::default());
                let size = PlannedFrame::from(&size);
                before.push(travel(Direction::Down, before.len() as u32, size.frame));
                row.assets.add(size);
                self.caches.keep(client, digest);
            }
        }
        let down = PlannedFrame::from(&FrameSize::of_sketch(&down.body(), &self.of.down));
        let up = match &self.of.rules.privacy.secure {
            Some(rules) => {
                let masked = summands(up.body(), rules.numbers.modulus.dtype());
                FrameSize::of_sketch(&masked, &CodecPlan::default())
            }
            None => FrameSize::of_sketch(&up.body(), &self.of.up),
        };
        let up = PlannedFrame::from(&up);
        let last = travel(Direction::Down, before.len() as u32, down.frame);
        let exchange = Exchange {
            client,
            down: before.into_iter().fold(last, after),
            work: self.clock.work(client, self.round, unit, passes),
            up: travel(Direction::Up, 0, up.frame),
        };
        let uploads = self.uploads.entry(place.name).or_default().entry(client).or_default();
        uploads.add(up.clone());
        row.down.add(down);
        row.up.add(up);
        exchange
    }

    /// The client that uploads most, for every name of a phase.
    fn one_client(&mut self) -> Vec<OneClient> {
        let most = |(phase, clients): (&'static str, BTreeMap<ClientId, FrameRange>)| {
            let of = clients.into_values().max_by_key(|range| range.sum.frame)?;
            Some(OneClient { phase, frames: of.frames, up: of.sum })
        };
        std::mem::take(&mut self.uploads).into_iter().filter_map(most).collect()
    }
}

/// A frame after another one, as if it were one. Where the server's line is shared this is an
/// approximation: the line is free while the first one's last half round trip goes on.
fn after(frame: Fate, before: Fate) -> Fate {
    Fate {
        sent: frame.sent + before.sent,
        latency: frame.latency + before.latency,
        rate: frame.rate.min(before.rate),
        delay: frame.delay + before.delay,
        ..frame
    }
}

/// Stands for the digest of an asset whose content nobody knows yet.
fn key_of(label: &str) -> u64 {
    let digest = blake3::hash(label.as_bytes());
    u64::from_le_bytes(*digest.as_bytes().first_chunk().expect("a digest of 32 bytes"))
}
