//! STSA's uploads are sums already: nothing but their numbers travels.

use super::{Down, Payload, Spread, Stsa, StsaPart, Sums, Up};
use crate::policy::{Additive, Keep, OldMessage, PolicyError, UpMeta};
use crate::wire::{Body, WireError};

impl Additive<Stsa> for Stsa {
    fn summand(&self, _down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        Ok(Up { payload: Payload::F64, ..up.clone() }.pack())
    }

    fn part(&self, sum: &Body) -> Result<StsaPart, PolicyError> {
        let Up { sums, spread, .. } = Up::unpack(sum)?;
        let Spread::Gram(gram) = spread else {
            return Err(WireError::Malformed("a sum of STSA has no `gram`".into()).into());
        };
        Ok(StsaPart { sums: Some(Sums { gram, sums }), units: Keep(Vec::new()) })
    }
}
