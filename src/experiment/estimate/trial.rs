//! A run's beginning, measured and not recorded.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Costs;
use crate::data::TaskSequence;
use crate::experiment::RunError;
use crate::experiment::assemble::{assemble, blueprint};
use crate::experiment::plan::{Faults, plan};
use crate::experiment::provenance::peak_memory_mb;
use crate::federation::{
    Entry, EvaluationPoint, Event, EventSink, Interrupt, JobKind, ProfileSink, SinkError, Snapshot,
    Span, simulate,
};
use crate::learning::{FeatureCache, TrainingPlan};
use crate::methods::Registry;
use crate::model::peak_gpu_memory_mb;
use crate::policy::{Method, RoundContext, RoundWork, Stage, one_participant_per_client};
use crate::quantity::{ClientId, Round, TaskId};
use crate::scenario::{Curve, Scenario};
use crate::wire::Body;

/// Runs the first task of the scenario with one round a phase and one epoch, for about `budget`.
///
/// At least one client trains, even if that takes longer. Writes nothing.
///
/// # Errors
/// Returns the error that would end the run itself, of data, weights, devices or the method.
pub fn trial(
    scenario: &Scenario,
    methods: &Registry,
    workers: Option<u32>,
    budget: Duration,
) -> Result<Costs, RunError> {
    let mut short = scenario.clone();
    short.federation.rounds = 1;
    short.client.epochs = 1;
    let planned = plan(&blueprint(&short, methods)?, Faults::Off)?;
    let of_server = planned.phases.iter().filter(|row| row.task == 1).map(|row| row.server_passes);
    let server_passes: f64 = of_server.sum();
    let setup = assemble(&short, methods, workers)?.setup;
    let test_samples = setup.ctx.dataset.test.len() as u64;
    let (cache, workers) = (Arc::clone(&setup.ctx.cache), setup.workers.count());
    let interrupt = Interrupt::default();
    let watched = Arc::new(Mutex::new(Watched::default()));
    let watcher = Watcher {
        method: Arc::clone(&setup.method),
        task_sequence: Arc::clone(&setup.ctx.task_sequence),
        training: setup.ctx.training.clone(),
        cache: Arc::clone(&cache),
        interrupt: interrupt.clone(),
        until: Instant::now() + budget,
        point: match scenario.record.evaluate {
            Curve::Round => EvaluationPoint::Round,
            Curve::Task | Curve::Never => EvaluationPoint::Task,
        },
        watched: Arc::clone(&watched),
    };
    let began = Instant::now();
    simulate(setup, Box::new(watcher), Box::new(SpanSums(Arc::clone(&watched))), interrupt)?;
    let took_s = began.elapsed().as_secs_f64();
    let watched = lock(&watched);
    let features = cache.counts();
    let feature_s = per(features.compute_s, features.computed as f64);
    let of_tests = watched.tested.min(features.computed) as f64;
    let of_training = features.computed as f64 - of_tests;
    let stages = watched.stages(features.computed, feature_s);
    let passes = stages.values().map(|stage| stage.passes).sum();
    let pass_s = per(stages.values().map(|stage| stage.seconds).sum(), passes);
    let phases = stages.iter().filter(|(_, stage)| stage.passes > 0.0);
    let test_s = match watched.tested {
        0 => pass_s / 3.0,
        tested => per(watched.evaluate_s - feature_s * of_tests, tested as f64),
    };
    Ok(Costs {
        measured: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        took_s,
        passes,
        tested: watched.tested,
        pass_s,
        phase_pass_s: phases.map(|(name, of)| (name.clone(), per(of.seconds, of.passes))).collect(),
        test_s,
        feature_s,
        features_of_training: of_training > 0.0,
        entry_s: per(watched.other_s / workers as f64 + watched.journal_s, watched.entries as f64),
        entry_bytes: per(watched.bytes as f64, watched.entries as f64),
        server_pass_s: match server_passes {
            0.0 => pass_s + PASS_OF_FEATURE * feature_s,
            _ => per(watched.server_s, server_passes),
        },
        server_round_s: match server_passes {
            0.0 => per(watched.server_s, watched.rounds as f64),
            _ => 0.0,
        },
        test_samples,
        state_bytes: watched.state_bytes,
        peak_memory_mb: peak_memory_mb(),
        peak_gpu_memory_mb: peak_gpu_memory_mb(),
    })
}

/// Features that take as long as a sample pass: a forward is one, and a backward counts two.
const PASS_OF_FEATURE: f64 = 3.0;

/// Returns the seconds per unit; 0 if nothing was observed.
fn per(seconds: f64, units: f64) -> f64 {
    if units > 0.0 { seconds.max(0.0) / units } else { 0.0 }
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock()
}

/// Running phase, and the work that had been done as it began.
struct UnderWay {
    name: String,
    computed: u64,
    tested: u64,
    passes: f64,
    train_s: f64,
}

/// Training in phases of one name: passes, and seconds without those of features.
#[derive(Default)]
struct PhaseTiming {
    passes: f64,
    seconds: f64,
}

/// Observations of a trial.
#[derive(Default)]
struct Watched {
    phases: Vec<UnderWay>,
    tested: u64,
    entries: u64,
    /// Bytes of the journal.
    bytes: u64,
    state_bytes: u64,
    evaluate_s: f64,
    /// Seconds of coding and aggregation, of all workers.
    other_s: f64,
    journal_s: f64,
    server_s: f64,
    rounds: u64,
}

impl Watched {
    /// Returns the training by phase name, without the time of features.
    ///
    /// `computed` features had been computed in all, in `feature_s` seconds each.
    fn stages(&self, computed: u64, feature_s: f64) -> BTreeMap<String, PhaseTiming> {
        let mut stages: BTreeMap<String, PhaseTiming> = BTreeMap::new();
        let mut end = (computed, self.tested);
        for phase in self.phases.iter().rev() {
            let tested = end.1 - phase.tested;
            let features = (end.0 - phase.computed).saturating_sub(tested) as f64;
            let stage = stages.entry(phase.name.clone()).or_default();
            stage.passes += phase.passes;
            stage.seconds += phase.train_s - feature_s * features;
            end = (phase.computed, phase.tested);
        }
        stages
    }
}

/// Sink that counts the work of a trial, and ends it.
struct Watcher {
    method: Arc<dyn Method>,
    task_sequence: Arc<TaskSequence>,
    training: TrainingPlan,
    cache: Arc<FeatureCache>,
    interrupt: Interrupt,
    until: Instant,
    /// Occasion of the tests that are counted.
    point: EvaluationPoint,
    watched: Arc<Mutex<Watched>>,
}

impl Watcher {
    /// Returns the sample passes of a participant in the only round of a phase.
    fn passes(&self, (round, task, phase): (Round, TaskId, usize), samples: usize) -> f64 {
        let tasks = &self.task_sequence.tasks;
        let stage = Stage::of(Arc::clone(&tasks[task.index()]), tasks.len());
        let context = RoundContext { round, ..RoundContext::alone(&stage, phase) };
        let participants = one_participant_per_client(&context.stage, &[ClientId(0)]);
        let work =
            |participant| RoundWork::Participant { participant, samples, plan: &self.training };
        participants.iter().map(|participant| self.method.cost(&context, &work(participant))).sum()
    }
}

impl EventSink for Watcher {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let mut watched = lock(&self.watched);
        watched.entries += 1;
        watched.bytes += entry.to_line().len() as u64 + 1;
        match &entry.event {
            Event::PhaseStarted { name, .. } => {
                let (computed, tested) = (self.cache.counts().computed, watched.tested);
                let name = name.clone();
                watched.phases.push(UnderWay { name, computed, tested, passes: 0.0, train_s: 0.0 });
            }
            Event::ClientTrained { round, task, phase, samples, .. } => {
                let passes = self.passes((*round, *task, *phase as usize), *samples as usize);
                watched.phases.iter_mut().last().expect("training is in a phase").passes += passes;
                if Instant::now() > self.until {
                    self.interrupt.request();
                }
            }
            // The test at a task's end repeats that of its last round, and is not computed again.
            Event::Evaluated { point, .. } if *point == self.point => {
                let scores = entry.numbers.iter().flat_map(|numbers| &numbers.tasks);
                watched.tested += scores.map(|score| score.total).sum::<u64>();
            }
            Event::RoundClosed { .. } => watched.rounds += 1,
            Event::TaskEnded { .. } => self.interrupt.request(),
            _ => {}
        }
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        lock(&self.watched).state_bytes == 0
    }

    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        lock(&self.watched).state_bytes = bytes(snapshot);
        Ok(())
    }
}

/// Returns the bytes of all tensors of a snapshot.
fn bytes(snapshot: &Snapshot) -> u64 {
    let of = |body: &Body| body.tensors().map(|(_, tensor)| tensor.values().bytes()).sum::<u64>();
    of(&snapshot.server) + snapshot.clients.iter().map(|(_, body)| of(body)).sum::<u64>()
}

/// Profile that adds up the wall times of a trial.
struct SpanSums(Arc<Mutex<Watched>>);

impl ProfileSink for SpanSums {
    fn record(&mut self, span: &Span) {
        let mut watched = lock(&self.0);
        let sum = match (span.job, span.worker) {
            (JobKind::Train | JobKind::Retry, _) => match watched.phases.last_mut() {
                Some(phase) => &mut phase.train_s,
                None => return,
            },
            (JobKind::Evaluate, _) => &mut watched.evaluate_s,
            (JobKind::Codec | JobKind::Aggregate, _) => &mut watched.other_s,
            (JobKind::Server | JobKind::Bias, _) => &mut watched.server_s,
            (JobKind::Journal, None) => &mut watched.journal_s,
            _ => return,
        };
        *sum += span.wall as f64 / 1e9;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases that begin with 30 features, 14 of them for a test, then compute 5 more, then none.
    #[test]
    fn a_feature_is_charged_to_no_phase_s_passes() {
        let phase = |name: &str, computed, tested, passes, train_s| {
            let name = name.to_owned();
            UnderWay { name, computed, tested, passes, train_s }
        };
        let phases = vec![
            phase("look", 0, 0, 100.0, 10.0),
            phase("train", 30, 14, 40.0, 8.0),
            phase("look", 35, 14, 50.0, 1.0),
        ];
        let watched = Watched { phases, tested: 14, ..Watched::default() };
        let stages = watched.stages(35, 0.5);
        let of = |name: &str| (stages[name].passes, stages[name].seconds);
        assert_eq!(of("look"), (150.0, 10.0 - 0.5 * 16.0 + 1.0));
        assert_eq!(of("train"), (40.0, 8.0 - 0.5 * 5.0));
    }
}
