//! Messages, phases and participants that follow from the parts of a method.

use super::{ClientContext, LocalTraining, Parts, SharedModel};
use crate::methods::averaging::{ClientWeighting, PackClient, ServerState};
use crate::model::is_buffer;
use crate::policy::{
    ClientState, ModelFacts, Participant, Role, RoundContext, RunContext, Weight,
    one_participant_per_client,
};
use crate::quantity::ClientId;

impl<'m, S: ClientState, M: ServerState> Parts<'m, S, M> {
    /// Returns model, trained parameters and run context for a client's part of a round.
    pub fn context<'a>(&'a self, model: &'a ModelFacts, ctx: &'a RunContext) -> ClientContext<'a>
    where
        'm: 'a,
    {
        let shared: SharedModel<'a> = self.shared();
        ClientContext { model, shared, ctx }
    }

    /// Returns the shared loop of local training for a pack, with the method's objective.
    pub fn training<'a>(
        &'a self,
        model: &'a ModelFacts,
        pack: &[PackClient<'_, S>],
        ctx: &'a RunContext,
    ) -> LocalTraining<'a, S>
    where
        'm: 'a,
    {
        let round = pack.first().map_or(0, |first| self.download.round(first.download));
        LocalTraining { context: self.context(model, ctx), local: self.local, round }
    }

    /// Returns the weight of a parameter in the mean.
    ///
    /// Buffers (running statistics) have no elementwise weights.
    pub fn weight_of(&self, name: &str) -> Weight {
        let tensor = self.upload.weight_tensor();
        match (self.upload.elementwise_weight_prefix(), self.averaging.weights) {
            (Some(prefix), _) if !is_buffer(name) => Weight::Elementwise(prefix),
            (_, ClientWeighting::BySamples) => Weight::Sum(tensor),
            (_, ClientWeighting::Uniform) => Weight::Presence(tensor),
        }
    }

    /// Returns true if clients get the model of the end of the previous task.
    pub fn sends_previous_model(&self) -> bool {
        self.previous_model.is_some()
    }

    /// Returns the number of rounds of a task that train, out of the `rounds` of the scenario.
    pub fn training_rounds(&self, rounds: u32) -> u32 {
        self.final_exchange.map_or(rounds, |last| last.training_rounds(rounds))
    }

    /// Returns true if downloads of the final exchange come with the assets of training, too.
    pub fn final_exchange_sends_assets(&self) -> bool {
        self.final_exchange.is_some_and(|last| last.sends_assets())
    }

    /// Returns the roles of participants, each with its name.
    pub fn roles(&self) -> Vec<(Role, &'static str)> {
        self.roles.map_or_else(|| vec![(Role::default(), "")], |roles| roles.roles())
    }

    /// Returns the participants of a round.
    pub fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        match self.roles {
            Some(roles) => roles.participants(round, cohort),
            None => one_participant_per_client(&round.stage, cohort),
        }
    }
}
