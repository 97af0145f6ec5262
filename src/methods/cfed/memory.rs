//! State of CFed's server besides parameters: the number of samples whose targets were made.

use crate::methods::averaging::ServerState;
use crate::wire::{Body, Kind, Saved, Saving, WireError};

const ASKED: &str = "asked";

/// Samples whose targets were made in all rounds so far: the cycle of models goes on from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeacherCycle(pub u64);

impl ServerState for TeacherCycle {}

impl Saved for TeacherCycle {
    fn save(&self) -> Body {
        let mut into = Saving::default();
        if self.0 > 0 {
            into.list(Kind::Settings, ASKED, [self.0 as u32, (self.0 >> 32) as u32]);
        }
        into.finish()
    }

    fn load(saved: &Body) -> Result<TeacherCycle, WireError> {
        if saved.of_kind(Kind::Settings).next().is_none() {
            return Ok(TeacherCycle(0));
        }
        let halves = saved.tensor(Kind::Settings, ASKED)?.shaped(&[2])?.as_u32()?;
        Ok(TeacherCycle(u64::from(halves[0]) | u64::from(halves[1]) << 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_goes_on_after_loading() {
        for asked in [TeacherCycle(0), TeacherCycle(7), TeacherCycle((3 << 32) + 5)] {
            assert_eq!(TeacherCycle::load(&asked.save()).unwrap(), asked);
        }
    }
}
