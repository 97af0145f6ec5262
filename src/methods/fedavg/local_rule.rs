//! FedAvg whose clients learn by a rule of their own: what FedProx, FedLwF-2T, Joint and the oracle share.
//!
//! A [`LocalRule`] says how one client learns and what it keeps; [`FedAvgBy`] is FedAvg with that rule in place of
//! plain local training: the same messages, the same mean.

use std::sync::Arc;

use super::{Down, FedAvg, FedAvgServer, Up, changed};
use crate::learning::{Classifier, TrainingPlan};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, AssetSketch, Averaged, ClientPolicy, ClientState, ExchangeSketch, Failure, Field,
    Lab, Member, Method, Outcome, ParameterAverage, PolicyError, Predictor, SketchFacts, UpMeta,
    one_by_one,
};
use crate::quantity::TaskId;
use crate::wire::{Body, BodySketch};

/// How a client of FedAvg learns.
pub trait LocalRule: Clone + Send + Sync + 'static {
    /// What a client keeps between rounds.
    type State: ClientState;

    /// Trains what the member received on its shard; the upload is FedAvg's.
    ///
    /// # Errors
    /// As [`ClientPolicy::train`].
    fn learn(
        &self,
        fedavg: &FedAvg,
        member: &mut Member<'_, FedAvgBy<Self>>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError>;

    /// Whether uploads may be folded later, summed in secret or folded robustly as FedAvg's may, or why not.
    fn folds(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Whether clients are sent the model that the previous task left.
    fn taught(&self) -> bool {
        false
    }

    /// Whether messages cross a network.
    fn charged(&self) -> bool {
        true
    }

    /// As [`Method::work`], for one pass over a sample that FedAvg counts as 1.
    fn work_per_sample(&self) -> f64 {
        1.0
    }
}

/// FedAvg with clients that learn by `R`.
#[derive(Clone, Debug)]
pub struct FedAvgBy<R> {
    pub(in crate::methods) fedavg: FedAvg,
    pub(in crate::methods) rule: R,
}

impl<R: LocalRule> Method for FedAvgBy<R> {
    type Down = Down;
    type Up = Up;
    type Part = ParameterAverage;
    type State = R::State;
    type Server = FedAvgServer;
    type Client = LocalClient<R>;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<FedAvgServer, PolicyError> {
        Ok(FedAvgServer { teaches: self.rule.taught(), ..self.fedavg.server(lab, init)? })
    }

    fn client(&self) -> LocalClient<R> {
        LocalClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let sketch = self.fedavg.sketch(facts);
        match self.rule.taught() && facts.view.task > TaskId(0) {
            true => ExchangeSketch { down: self.fedavg.naming_sketch(facts.view), ..sketch },
            false => sketch,
        }
    }

    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        if !self.rule.taught() {
            return Vec::new();
        }
        self.fedavg.previous_sketch(facts.view).into_iter().collect()
    }

    fn feature_sketch(&self) -> BodySketch {
        self.fedavg.feature_sketch()
    }

    fn fields(&self) -> &'static [Field] {
        self.fedavg.fields()
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<ParameterAverage, PolicyError> {
        self.fedavg.lift(down, up, meta)
    }

    fn late(&self) -> Result<(), &'static str> {
        self.rule.folds()
    }

    fn additive(&self) -> Result<&dyn Additive<Self>, &'static str> {
        self.rule.folds().map(|()| self as &dyn Additive<Self>)
    }

    fn averaged(&self) -> Result<&dyn Averaged<Self>, &'static str> {
        self.rule.folds().map(|()| self as &dyn Averaged<Self>)
    }

    fn charged(&self) -> bool {
        self.rule.charged()
    }

    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.rule.work_per_sample() * self.fedavg.work(phase, samples, plan)
    }
}

impl<R: LocalRule> Additive<FedAvgBy<R>> for FedAvgBy<R> {
    fn summand(&self, down: &Down, up: &Up, meta: &UpMeta) -> Result<Body, PolicyError> {
        self.fedavg.summand(down, up, meta)
    }

    fn part(&self, sum: &Body) -> Result<ParameterAverage, PolicyError> {
        self.fedavg.part(sum)
    }
}

impl<R: LocalRule> Averaged<FedAvgBy<R>> for FedAvgBy<R> {
    fn average<'a>(&self, part: &'a mut ParameterAverage) -> &'a mut ParameterAverage {
        part
    }

    fn changed(
        &self,
        down: &Down,
        up: &Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Up, PolicyError> {
        changed(down, up, change)
    }
}

/// Serves every client.
pub struct LocalClient<R> {
    method: Arc<FedAvgBy<R>>,
}

impl<R: LocalRule> ClientPolicy<FedAvgBy<R>> for LocalClient<R> {
    fn train(
        &self,
        members: &mut [Member<'_, FedAvgBy<R>>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        let FedAvgBy { fedavg, rule } = &*self.method;
        one_by_one(members, |member| rule.learn(fedavg, member, lab))
    }

    fn predictor(
        &self,
        down: &Down,
        up: &Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(Some(Arc::new(Classifier::frozen(&lab.backbone, &up.whole(down)?)?)))
    }
}
