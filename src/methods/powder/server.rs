//! Powder's server: keeps client tasks side by side, and compares them as a stage begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::messages::{ClientTaskDownload, SimilarityKeys};
use super::predictor::{ClientTaskModel, ClientTaskModels};
use super::table::{ClientTaskKey, ClientTaskTable};
use super::{Attention, Downlink, OPENING, Powder};
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Aggregate, KeptUpload, Message, Participant, PolicyError, Predictor, RoundContext, RunContext,
    Server,
};
use crate::wire::{Body, WireError};

/// Server of Powder, which keeps all client tasks.
pub struct PowderServer {
    method: Arc<Powder>,
    init: StreamKey,
    table: ClientTaskTable,
    metrics: Vec<(&'static str, f64)>,
}

impl PowderServer {
    /// Creates a server without client tasks.
    pub fn new(method: Arc<Powder>, init: StreamKey) -> PowderServer {
        PowderServer { method, init, table: ClientTaskTable::default(), metrics: Vec::new() }
    }

    /// Returns the table of all client tasks.
    pub fn table(&self) -> &ClientTaskTable {
        &self.table
    }

    /// Returns the table of all client tasks, mutably.
    pub fn table_mut(&mut self) -> &mut ClientTaskTable {
        &mut self.table
    }

    /// Returns the number of a participant's client task, which is created if it does not exist yet.
    fn begin(&mut self, participant: &Participant) -> usize {
        let (key, rows) = (ClientTaskKey::of(participant), participant.view.rows.clone());
        self.table.begin(key, rows, &self.method.shape, self.init)
    }

    /// Computes `W` for the stage that begins, and the class shares of these client tasks.
    fn compare(&mut self, asked: &[usize]) {
        self.table.compare(&self.method.likeness(), self.method.config.source_tasks, asked);
        self.note(asked);
    }

    /// Computes the attention of client tasks that participants leave in this round for new ones.
    fn look_at_left(
        &mut self,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let latest = |participant: &Participant| {
            let client_tasks = self.table.entries();
            let beginner = self.table.find(ClientTaskKey::of(participant)).is_none();
            client_tasks
                .iter()
                .rposition(|client_task| beginner && client_task.key.client == participant.client)
        };
        let left: Vec<usize> = participants.iter().filter_map(latest).collect();
        self.look_at(&left, ctx)
    }

    /// Computes the attention of these client tasks and then `W`: of all as a stage begins, later of new ones only.
    fn look_at_held(
        &mut self,
        round: &RoundContext,
        client_tasks: &[usize],
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let opens = round.round_in_phase == 0;
        let new = |client_task: &&usize| self.table.entries()[**client_task].attention.is_none();
        let asked: Vec<usize> =
            client_tasks.iter().filter(|client_task| opens || new(client_task)).copied().collect();
        self.look_at(&asked, ctx)?;
        if !asked.is_empty() {
            self.compare(&asked);
        }
        Ok(())
    }

    /// Computes the attention that clients would report for these client tasks, from the data set.
    fn look_at(&mut self, client_tasks: &[usize], ctx: &RunContext) -> Result<(), PolicyError> {
        let looks = self.looks(&[]);
        for client_task in client_tasks {
            let rows = self.table.entries()[*client_task].rows.clone();
            // Head rows belong to a single client task here, so they identify its images.
            let samples = ctx.dataset.train.of_classes(rows.clone().map(|row| row as u32));
            let found = self.method.attention(&rows, &samples.into(), &looks, ctx)?;
            self.table.entry_mut(*client_task).attention = Some(found);
        }
        Ok(())
    }

    /// Returns the keys to be scored: those of all client tasks that others may use, without the `known` ones.
    fn looks(&self, known: &[u32]) -> SimilarityKeys {
        let Powder { shape, config, .. } = &*self.method;
        let (client_tasks, parameters) = self.table.looks(shape, config.source_tasks, known);
        SimilarityKeys { client_tasks, parameters }
    }

    /// Returns the downloads with the keys that the clients of these client tasks score.
    ///
    /// A client that sent its scores at the end of the previous stage gets only the keys of client tasks that began
    /// since.
    fn questions(&self, client_tasks: &[usize]) -> Result<Vec<Arc<Message>>, PolicyError> {
        let mut made = BTreeMap::<&[u32], Arc<Message>>::new();
        let question = |client_task: &usize| {
            let known = self.table.known(*client_task);
            if !made.contains_key(known) {
                made.insert(known, Arc::new(self.looks(known).write(&self.method.shape)?));
            }
            Ok(Arc::clone(&made[known]))
        };
        client_tasks.iter().map(question).collect()
    }

    /// Sets the metrics of the round: number of client tasks, and mean weight of the given ones in their own rows of
    /// `W`.
    fn note(&mut self, asked: &[usize]) {
        let own: f64 =
            asked.iter().map(|client_task| self.table.weights(*client_task)[*client_task]).sum();
        let mean = (!asked.is_empty()).then(|| ("own_weight", own / asked.len() as f64));
        self.metrics = vec![("client_tasks", self.table.entries().len() as f64)];
        self.metrics.extend(mean);
    }
}

impl Server for PowderServer {
    /// Creates the client tasks that begin, in the order of participants, and returns the downloads.
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let method = Arc::clone(&self.method);
        let here = Powder::mixes(round.phase) && method.looks_at_server();
        if here {
            self.look_at_left(participants, ctx)?;
        }
        let client_tasks: Vec<usize> =
            participants.iter().map(|participant| self.begin(participant)).collect();
        if here {
            self.look_at_held(round, &client_tasks, ctx)?;
        }
        if !Powder::trains(round.phase) {
            return self.questions(&client_tasks);
        }
        let mixes = Powder::mixes(round.phase);
        // The release distills in every round but the run's first, even from client tasks that are not trained yet.
        let distills = round.stage.task.index() > 0 || round.round_in_phase > 0;
        let download = |client_task: usize| {
            let known = &self.table.entries()[client_task];
            let (parameters, table) = match method.config.downlink {
                Downlink::Table => {
                    let count = method.client_tasks(known.rows.len());
                    let shared = self.table.shared(client_task, count, mixes, &method.shape);
                    (ParameterSet::new(), Some(shared))
                }
                Downlink::Needed if mixes => (self.table.mixed(client_task, &method.shape), None),
                Downlink::Needed => (known.parameters.clone(), None),
            };
            let class_shares = known.class_shares.clone();
            let download = ClientTaskDownload { parameters, table, distills, class_shares };
            Ok(Arc::new(download.write(&method.shape)?))
        };
        client_tasks.into_iter().map(download).collect()
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.metrics.clear();
        let Some(Aggregate { kept_uploads: kept, .. }) = aggregate else { return Ok(()) };
        let mut asked = Vec::new();
        for KeptUpload { meta, update, .. } in kept {
            // After a restart the server may not know the client task whose upload arrives.
            let number = self.begin(&meta.participant);
            if Powder::trains(round.phase) {
                self.table.learn(number, update.parameters);
            } else {
                let blocks = self.method.shape.blocks.len();
                self.table.take(number, Attention::read(&update)?, blocks);
                asked.push(number);
            }
        }
        if round.phase == OPENING {
            self.compare(&asked);
        }
        Ok(())
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let shape = &self.method.shape;
        let mut client_tasks = Vec::new();
        for (number, client_task) in self.table.entries().iter().enumerate() {
            if !client_task.is_trained() {
                continue;
            }
            let parameters = match self.method.config.transfer {
                true => self.table.mixed(number, shape),
                false => client_task.parameters.clone(),
            };
            let prompting = Arc::new(self.method.prompting(false));
            let model = Classifier::frozen_with(&ctx.backbone, &parameters, Some(prompting))?;
            client_tasks
                .push(ClientTaskModel { rows: client_task.rows.clone(), model: Arc::new(model) });
        }
        Ok(Arc::new(ClientTaskModels::new(&ctx.backbone, client_tasks, shape.blocks.start)))
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.metrics.clone()
    }

    fn save(&self) -> Body {
        self.table.save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.table = ClientTaskTable::load(saved)?;
        self.metrics.clear();
        Ok(())
    }
}
