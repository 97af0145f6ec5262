//! A method whose chosen clients send NaN: everything else is the method inside.

use std::sync::Arc;

use fedcast::policy::*;
use fedcast::wire::*;

/// Spoils the uploads of every client for which `spoils` says so.
pub struct Poison {
    pub inner: Arc<dyn Method>,
    pub spoils: fn(&Participant) -> bool,
}

/// The first value of the first f32 tensor becomes NaN.
fn spoil(upload: &Message) -> Result<Message, WireError> {
    let mut body = upload.body();
    let mut tensors = body.sections.iter_mut().flat_map(|section| &mut section.tensors);
    let real = tensors.find(|tensor| tensor.as_f32().is_ok_and(|values| !values.is_empty()));
    if let Some(tensor) = real {
        let mut values = tensor.as_f32()?.to_vec();
        values[0] = f32::NAN;
        let (name, shape) = (tensor.name().clone(), tensor.shape().to_vec());
        *tensor = NamedTensor::f32(name, shape, values)?;
    }
    Message::from_body(&body, &upload.assets)
}

impl MethodWrapper for Poison {
    fn inner(&self) -> &dyn Method {
        &*self.inner
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let outcomes = self.inner.train(members, ctx);
        let spoiled = |(member, outcome): (&Member, Result<ClientResult, Failure>)| {
            let mut outcome = outcome?;
            if (self.spoils)(&member.participant) {
                outcome.upload = spoil(&outcome.upload).map_err(PolicyError::from)?;
            }
            Ok(outcome)
        };
        members.iter().zip(outcomes).map(spoiled).collect()
    }
}
