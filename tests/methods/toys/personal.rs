//! A download per participant, and more participants than clients: every client has two units, each gets its own
//! number and answers with its square; the server keeps all answers.

use std::sync::Arc;

use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::{ClientId, ParticipantId};
use fedcast::wire::*;

use super::visits::{Constant, number, said, saying};

pub struct Personal;

fn answer(member: &Member) -> Result<ClientResult, PolicyError> {
    let number_sent = said(&member.download, "told")?;
    let upload = saying(number("answer"), number_sent * number_sent)?;
    Ok(ClientResult { upload, metrics: vec![("told", number_sent as f64)] })
}

impl Method for Personal {
    fn server(&self, _ctx: &RunContext, _init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(PersonalServer { received: Vec::new() }))
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        let participants =
            cohort.iter().flat_map(|client| [0, 1].map(|dummy_client| (*client, dummy_client)));
        let participant = |(place, (client, dummy_client)): (usize, (ClientId, u32))| Participant {
            id: ParticipantId(place as u32),
            client,
            role: Role(dummy_client as u8),
            dummy_client: Some(dummy_client),
            kind: ParticipantKind::Client,
            view: round.stage.view_of(client),
        };
        participants.enumerate().map(participant).collect()
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }

    fn message_spec(&self, message: MessageKind, _facts: &ExchangeFacts<'_>) -> MessageSpec {
        let extra = match message {
            MessageKind::Download => number("told"),
            _ => number("answer").kept(),
        };
        MessageSpec { extra: vec![extra], ..MessageSpec::default() }
    }

    fn train(
        &self,
        members: &mut [Member],
        _ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        members.iter().map(|member| answer(member).map_err(Failure::from)).collect()
    }
}

pub struct PersonalServer {
    received: Vec<u64>,
}

impl Server for PersonalServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        participants: &[Participant],
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let own = |participant: &Participant| {
            u64::from(10 * participant.client.0 + participant.dummy_client.unwrap_or(9))
        };
        participants
            .iter()
            .map(|participant| Ok(Arc::new(saying(number("told"), own(participant))?)))
            .collect()
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        aggregate: Option<Aggregate>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let answers = aggregate.map(|aggregate| aggregate.kept_uploads).unwrap_or_default();
        assert!(
            answers.is_sorted_by_key(|kept| kept.meta.participant.id),
            "kept in the order of participants"
        );
        for KeptUpload { meta, sent, update } in answers {
            let own = 10 * meta.participant.client.0 + meta.participant.dummy_client.unwrap_or(9);
            assert_eq!(said(&sent, "told")?, u64::from(own), "its own Down");
            self.received.push(said(&update, "answer")?);
        }
        Ok(())
    }

    fn predictor(&self, _ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        let received = TensorValues::U64(self.received.clone().into());
        let received = NamedTensor::new("heard", [self.received.len()], received).unwrap();
        Body::new(Vec::new(), vec![Section::new(Kind::Settings, vec![received])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.received = saved.tensor(Kind::Settings, "heard")?.as_u64()?.to_vec();
        Ok(())
    }
}
