//! **HePCo**, heterogeneous prompt consolidation ("Continual Adaptation of Vision Transformers for Federated
//! Learning", TMLR 2024).
//!
//! Clients train a pool of prompts and a head on a frozen transformer. The server averages both, then repairs the
//! average without data in the space of the *query*, the feature of the unprompted transformer: small
//! generators make pseudo-queries for the task's classes and for earlier ones, and prompts and head are
//! distilled on them.
//!
//! ```text
//! client   as FedAvg-Prompt; n_i(y), its samples of every class of the task           (fedavg_prompt)
//! server   P, k, W, b  <- uniform mean
//!          G, G_old    <- min CE of the teachers - l1 KL(Q_i || Q) - l2 sum_j |rho - rho_i|^2
//!          P, k        <- min sum_i omega_i(y) sum_j |rho - rho_i|^2 on G(y, eps), and towards the
//!                         server at the end of the last task on G_old                 (consolidation)
//!          W, b        <- min CE on both, all classes seen competing
//! ```
//! As released, and by default, the distance of prompts in `G` has no gradient: generators learn nothing from it
//! ([`mse_gradient`](Settings::mse_gradient)). The paper does not mention the counts that clients send; its losses and label draws need them. Clients keep
//! nothing between rounds. Where paper and release differ there is a key of
//! [`Settings`]; its ablations are zeros: `lambda_kl`, `lambda_mse`, `replay_ratio` (no
//! previous server), `prompt_steps`, `head_steps`. With both distillations at zero it is
//! [FedAvg-Prompt](super::fedavg_prompt), bit for bit.

pub mod consolidation;
mod memory;

use std::sync::Arc;

pub use memory::Memory;

use self::consolidation::{Consolidation, Local, Previous, Settings};
use super::averaged::{Client, Closing, Trained};
use super::entry::MethodEntry;
use super::fedavg_prompt::FedAvgPrompt;
use super::parts::{AveragingMethod, ClientContext, Parts, ServerUpdate, TaskStart, UploadExtras};
use crate::learning::with_head_rows;
use crate::model::ParameterSet;
use crate::numerics::streams::Domain;
use crate::policy::{
    Figures, Kept, Lab, Message, ModelFacts, Period, Place, PolicyError, RoundContext, Service,
    SketchFacts, Veto,
};
use crate::scenario::reader::{TableReader, defaults};
use crate::wire::{Dtype, Kind, MetaWriter, NamedTensor, Section, WireError};

/// Name of the label counts.
const COUNTS: &str = "label_counts";

/// The `[method]` table of HePCo.
#[derive(Clone, Debug, PartialEq)]
pub struct Hepco {
    /// What clients train and how they are averaged.
    pub client: FedAvgPrompt,
    /// How the mean is repaired.
    pub server: Settings,
}

impl Default for Hepco {
    fn default() -> Self {
        defaults(Hepco::read)
    }
}

impl Hepco {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Hepco {
        Hepco { client: FedAvgPrompt::read(table), server: Settings::read(table) }
    }
}

impl AveragingMethod for Hepco {
    type State = ();
    type Memory = Memory;

    /// Every client teaches the server.
    fn parts(&self) -> Parts<'_, (), Memory> {
        Parts { upload: &LabelCounts, server: self, keeps_uploads: true, ..self.client.base() }
    }
}

/// Number of samples of each class of the task that a client has; an upload counts by their sum.
struct LabelCounts;

impl<S> UploadExtras<S> for LabelCounts {
    fn places(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let classes = [facts.view.rows.len()];
        vec![Place::new(Kind::Statistics, COUNTS, &classes, Dtype::U32).kept()]
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &Client<'_, S>,
        _trained: &Trained,
    ) -> Result<Vec<Section>, PolicyError> {
        let counts = context.lab.label_counts(member.seat, member.shard);
        let of = |row: usize| counts.get(&(row as u32)).copied().unwrap_or(0);
        let counts: Vec<u32> = member.seat.view.rows.clone().map(of).collect();
        let counts = NamedTensor::u32(COUNTS, [counts.len()], counts)?;
        Ok(vec![Section::new(Kind::Statistics, vec![counts])])
    }

    fn weight_tensor(&self) -> &'static str {
        COUNTS
    }

    /// The first head row that is sent, and the first that is counted.
    fn fields(&self, facts: &SketchFacts<'_>, first_row: usize, _usual: Vec<u8>) -> Vec<u8> {
        let mut fields = MetaWriter::new();
        fields.u64(first_row as u64).u64(facts.view.rows.start as u64);
        fields.finish()
    }

    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        Ok(reported(update, 0).map(drop)?)
    }
}

impl ServerUpdate<Memory> for Hepco {
    fn begin_task(&self, start: TaskStart<'_>, memory: &mut Memory, _: &mut ParameterSet) {
        memory.counts.resize(start.model.classes, 0);
    }

    fn server_update(
        &self,
        memory: &mut Memory,
        Closing { model, folded, round, .. }: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        let teachers = folded.kept.iter().map(|kept| teacher(kept, model.classes));
        let teachers = teachers.collect::<Result<Vec<_>, _>>()?;
        for teacher in &teachers {
            let counts = memory.counts.iter_mut().zip(&teacher.counts);
            counts.for_each(|(sum, count)| *sum += u64::from(*count));
        }
        if !self.server.consolidates() {
            return Ok(Figures::new());
        }
        let (settings, previous) =
            ((&self.server, self.client.pools(model)), memory.previous.as_ref());
        let (view, key) = (&round.period.view, round.key(Domain::Method));
        let made = Consolidation::new(settings, view, theta, &teachers, previous, key)?;
        let Some(consolidation) = made else { return Ok(Figures::new()) };
        let (moved, figures) = consolidation.run()?;
        *theta = std::mem::take(theta).merge(&moved);
        Ok(figures)
    }

    fn end_task(
        &self,
        memory: &mut Memory,
        theta: &ParameterSet,
        _period: &Period,
        _lab: &Lab,
    ) -> Result<(), PolicyError> {
        let (parameters, counts) = (theta.clone(), memory.counts.clone());
        memory.previous = Some(Previous { parameters, counts });
        Ok(())
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let (task, shape) = (round.period.task.index(), self.client.pools(model));
        model.passes(self.server.multiplications(&shape, model.classes, task, updates))
    }

    fn vetoes(&self) -> Vec<Veto> {
        Veto::against(&[Service::Mixed], "its server compares clients of one task")
    }
}

/// The first head row of an upload, and its samples by head row, of so many rows.
fn reported(update: &Message, rows: usize) -> Result<(usize, Vec<u32>), WireError> {
    let mut control = update.fields();
    let (first_row, first_counted) = (control.u64()? as usize, control.u64()? as usize);
    control.finish()?;
    let mut counts = vec![0; rows];
    let own = counts.iter_mut().skip(first_counted);
    let said = update.tensor(Kind::Statistics, COUNTS)?.as_u32()?;
    own.zip(said.iter()).for_each(|(to, count)| *to = *count);
    Ok((first_row, counts))
}

/// What a client made of what it was sent.
fn teacher(Kept { sent, update, .. }: &Kept, classes: usize) -> Result<Local, PolicyError> {
    let (first_row, counts) = reported(update, classes)?;
    let parameters = with_head_rows(&sent.parameters, &update.parameters, first_row)?;
    Ok(Local { parameters: Arc::new(parameters), counts })
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg-Prompt whose server repairs the mean without data: generators make pseudo-queries of new \
               and old classes, on which prompts and head are distilled from clients and from the last \
               task's server.",
        source: "Halbe, Smith, Tian, Kira: Continual Adaptation of Vision Transformers for Federated \
                 Learning, TMLR 2024",
        state: "server: prompts, keys, head, the same of the last task's end, label counts; client: nothing",
        ..MethodEntry::averaging("hepco", Hepco::read)
    }
}
