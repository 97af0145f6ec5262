//! A Down per seat, and more seats than clients: every client has two units, each is told a
//! number of its own and answers with its square; the server keeps who said what.

use std::sync::Arc;

use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::{ClientId, SeatId};
use fedcast::wire::*;

use super::visits::{Constant, number, said, saying};

pub struct Personal;

fn answer(member: &Member) -> Result<Outcome, PolicyError> {
    let told = said(&member.down, "told")?;
    let up = saying(number("answer"), told * told)?;
    Ok(Outcome { up, metrics: vec![("told", told as f64)] })
}

impl Method for Personal {
    fn server(&self, _lab: &Lab, _init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(PersonalServer { heard: Vec::new() }))
    }

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

    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }

    fn layout(&self, message: MessageKind, _facts: &SketchFacts<'_>) -> Layout {
        let extra = match message {
            MessageKind::Download => number("told"),
            _ => number("answer").kept(),
        };
        Layout { extra: vec![extra], ..Layout::default() }
    }

    fn train(&self, members: &mut [Member], _lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        members.iter().map(|member| answer(member).map_err(Failure::from)).collect()
    }
}

pub struct PersonalServer {
    heard: Vec<u64>,
}

impl Server for PersonalServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let own = |seat: &Seat| u64::from(10 * seat.client.0 + seat.unit.unwrap_or(9));
        seats.iter().map(|seat| Ok(Arc::new(saying(number("told"), own(seat))?))).collect()
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<Folded>,
        _lab: &Lab,
    ) -> Result<(), PolicyError> {
        let answers = folded.map(|folded| folded.kept).unwrap_or_default();
        assert!(answers.is_sorted_by_key(|kept| kept.meta.seat.id), "kept in seat order");
        for Kept { meta, sent, update } in answers {
            let own = 10 * meta.seat.client.0 + meta.seat.unit.unwrap_or(9);
            assert_eq!(said(&sent, "told")?, u64::from(own), "its own Down");
            self.heard.push(said(&update, "answer")?);
        }
        Ok(())
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
