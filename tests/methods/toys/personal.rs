//! A Down per seat, and more seats than clients: every client has two units, each is told a
//! number of its own and answers with its square; the server keeps who said what.

use std::sync::Arc;

use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::{ClientId, SeatId};
use fedcast::wire::*;

use super::visits::{Constant, Number, two_numbers};

pub struct Personal;

/// `(client, unit, what it was told, what it said)`, in seat order.
pub type Answers = Keep<(u32, u32, u64, u64)>;

impl Method for Personal {
    type Down = Number;
    type Up = Number;
    type Part = Answers;
    type State = ();
    type Server = PersonalServer;
    type Client = PersonalClient;

    fn server(&self, _lab: &Lab, _init: StreamKey) -> Result<PersonalServer, PolicyError> {
        Ok(PersonalServer { heard: Vec::new() })
    }

    fn client(&self) -> PersonalClient {
        PersonalClient
    }

    fn sketch(&self, _facts: &SketchFacts<'_>) -> ExchangeSketch {
        two_numbers()
    }

    fn fields(&self) -> &'static [Field] {
        &[Field { name: "answer", folding: Folding::Keep }]
    }

    fn lift(&self, down: &Number, up: Number, meta: &UpMeta) -> Result<Answers, PolicyError> {
        let Seat { id, client, unit, .. } = &meta.seat;
        Ok(Keep::one(*id, (client.0, unit.unwrap_or(9), down.0, up.0)))
    }
}

pub struct PersonalClient;

impl ClientPolicy<Personal> for PersonalClient {
    fn train(
        &self,
        members: &mut [Member<'_, Personal>],
        _lab: &Lab,
    ) -> Vec<Result<Outcome<Number>, Failure>> {
        let answer = |member: &Member<'_, Personal>| {
            let up = Number(member.down.0 * member.down.0);
            Ok(Outcome { up, metrics: vec![("told", member.down.0 as f64)] })
        };
        members.iter().map(answer).collect()
    }
}

pub struct PersonalServer {
    heard: Vec<u64>,
}

impl ServerPolicy<Personal> for PersonalServer {
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        let units = cohort.iter().flat_map(|client| [0, 1].map(|unit| (*client, unit)));
        let seat = |(place, (client, unit)): (usize, (ClientId, u32))| Seat {
            id: SeatId(place as u32),
            client,
            role: Role(unit as u8),
            unit: Some(unit),
            kind: SeatKind::Client,
            view: round.period.view_of(client),
        };
        units.enumerate().map(seat).collect()
    }

    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Number>>, PolicyError> {
        let own = |seat: &Seat| u64::from(10 * seat.client.0 + seat.unit.unwrap_or(9));
        Ok(seats.iter().map(|seat| Arc::new(Number(own(seat)))).collect())
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<Answers>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        let answers = folded.map(|keep| keep.0).unwrap_or_default();
        assert!(answers.is_sorted_by_key(|(seat, _)| *seat), "kept in seat order");
        for (_, (client, unit, told, said)) in answers {
            assert_eq!(told, u64::from(10 * client + unit), "its own Down");
            self.heard.push(said);
        }
        Ok(Next::Continue)
    }

    fn predictor(&self, _lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Constant))
    }

    fn save(&self) -> Body {
        let heard = Values::U64(self.heard.clone().into());
        let heard = NamedTensor::new("heard", [self.heard.len()], heard).unwrap();
        Body::new(Vec::new(), vec![Section::new(Kind::Settings, vec![heard])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.heard = saved.tensor(Kind::Settings, "heard")?.as_u64()?.to_vec();
        Ok(())
    }
}
