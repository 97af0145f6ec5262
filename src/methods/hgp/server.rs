//! HGP's server: averages prompt and head, keeps the Gaussians, rebalances the head.

use std::sync::Arc;

use super::messages::Down;
use super::rebalance::rebalance;
use super::{Hgp, HgpPart, Memory, Prototypes};
use crate::learning::{Classifier, Head};
use crate::model::{LinearHead, Parameter, ParameterSet};
use crate::numerics::streams::Domain;
use crate::policy::{
    Lab, Next, PolicyError, Predictor, RoundContext, Seat, ServerPolicy, parameter_sections,
    parameters_of, shared,
};
use crate::wire::{Body, WireError};

/// What the server knows.
pub struct HgpServer {
    pub(super) method: Arc<Hgp>,
    /// Prompt and head.
    pub(super) parameters: ParameterSet,
    pub(super) prototypes: Prototypes,
}

impl ServerPolicy<Hgp> for HgpServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        let view = &round.period.view;
        let rows = self.method.config.head.down_rows(view, self.method.classes);
        Ok(shared(Down::cut(&self.parameters, rows)?, seats))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<HgpPart>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        let Some(HgpPart { average, classes }) = folded else { return Ok(Next::Continue) };
        self.parameters = average.apply(&self.parameters);
        let described: Vec<_> = classes.0.into_iter().map(|(_, said)| said).collect();
        self.prototypes.update(&described, self.method.config.memory == Memory::Round);

        let mut head = head_of(&self.parameters)?;
        let key = round.key(Domain::Rebalance);
        let view = &round.period.view;
        if rebalance(&self.method.config, &self.prototypes, &mut head, view, key)?.is_some() {
            put_head(&mut self.parameters, head);
        }
        Ok(Next::Continue)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Classifier::frozen(&lab.backbone, &self.parameters)?))
    }

    fn save(&self) -> Body {
        let mut body = Body::new(Vec::new(), parameter_sections(&self.parameters));
        self.prototypes.save_into(&mut body);
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.parameters = parameters_of(saved)?;
        self.prototypes = Prototypes::load_from(saved)?;
        Ok(())
    }
}

fn head_of(parameters: &ParameterSet) -> Result<Head, PolicyError> {
    let values = |name: &str| {
        let found = parameters.get(name).map(|parameter| parameter.values.to_vec());
        found.ok_or_else(|| PolicyError::Unsupported(format!("the server lost `{name}`")))
    };
    Ok(Head { weight: values(LinearHead::WEIGHT)?, bias: values(LinearHead::BIAS)? })
}

fn put_head(parameters: &mut ParameterSet, head: Head) {
    let (rows, dim) = (head.rows(), head.dim());
    let weight = Parameter { shape: vec![rows, dim], values: head.weight.into() };
    parameters.insert(LinearHead::WEIGHT, weight);
    let bias = Parameter { shape: vec![rows], values: head.bias.into() };
    parameters.insert(LinearHead::BIAS, bias);
}
