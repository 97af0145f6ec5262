//! The small pretrained network that ships inside the program.
//!
//! The example `pretrain` (`tools/pretrain`) made it from procedurally drawn images, which no federated class
//! is part of; the quickstart needs no download because of it.

use super::ops::PerceptronActivation;
use super::{ModelError, Vit, VitConfig};

/// timm-named safetensors, f32.
static FILE: &[u8] = include_bytes!("embedded/vit_glyphs.safetensors");

/// Its dimensions: 8 x 8 grey images in patches of 2 (17 tokens), 6 blocks of width 64.
/// 301,504 parameters, 1.2 MB.
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
/// When this build carries none.
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
