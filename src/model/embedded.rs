//! Small pretrained network that is embedded in the program.
//!
//! The example `pretrain` (`tools/pretrain`) trained it on procedurally drawn images, which contain no class of a
//! federation. Because of it the quickstart needs no download.

use super::ops::PerceptronActivation;
use super::{ModelError, Vit, VitConfig};

/// Weights as safetensors with timm's names, f32.
static FILE: &[u8] = include_bytes!("embedded/vit_glyphs.safetensors");

/// Dimensions of the embedded network: 8 x 8 gray images in patches of 2 (17 tokens), 6 blocks of width 64.
///
/// It has 301,504 parameters (1.2 MB).
pub const EMBEDDED_CONFIG: VitConfig = VitConfig {
    image: 8,
    patch: 2,
    channels: 1,
    dim: 64,
    depth: 6,
    heads: 4,
    mlp: 256,
    norm_eps: 1e-6,
    activation: PerceptronActivation::Gelu,
};

/// Reads the embedded network.
///
/// # Errors
/// Returns an error if this build does not contain it.
pub fn embedded_vit() -> Result<Vit, ModelError> {
    Vit::from_bytes("embedded weights", FILE, None, Some(EMBEDDED_CONFIG.heads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_below_two_megabytes() {
        assert!(4 * EMBEDDED_CONFIG.parameter_count() < 2_000_000 && FILE.len() < 2_000_000);
    }
}
