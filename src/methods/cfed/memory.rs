//! What the server of CFed keeps beside parameters: how many of its samples have been asked about.

use crate::methods::averaged::Memory;
use crate::model::ParameterSet;
use crate::policy::parameters_of;
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

const ASKED: &str = "asked";

/// Samples whose targets were made in all rounds so far: the cycle of models goes on from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked(pub u64);

impl Memory for Asked {
    fn save_into(&self, body: &mut Body) {
        if self.0 > 0 {
            let halves = vec![self.0 as u32, (self.0 >> 32) as u32];
            let asked = NamedTensor::u32(ASKED, [2], halves).expect("two numbers");
            body.sections.push(Section::new(Kind::Settings, vec![asked]));
        }
    }

    fn load_from(saved: &Body) -> Result<(Asked, ParameterSet), WireError> {
        let mut asked = 0;
        if saved.of_kind(Kind::Settings).next().is_some() {
            let halves = saved.tensor(Kind::Settings, ASKED)?.shaped(&[2])?.as_u32()?;
            asked = u64::from(halves[0]) | u64::from(halves[1]) << 32;
        }
        Ok((Asked(asked), parameters_of(saved)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_goes_on_after_loading() {
        for asked in [Asked(0), Asked(7), Asked((3 << 32) + 5)] {
            let mut body = Body::default();
            asked.save_into(&mut body);
            assert_eq!(Asked::load_from(&body).unwrap().0, asked);
        }
    }
}
