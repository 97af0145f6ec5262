//! Images from a model alone: losses by which a generator learns what a classifier knows, without any data.
//!
//! ```text
//! content      CE(s / T, argmax s): images that the model classifies with confidence
//! diversity    1 + sum_c p_c ln p_c / ln K,  p the mean softmax(s) of a batch: all classes equally often
//! statistics   mean over batch norms of KL(N(mu_run, var_run) | N(mu, var)): features as real images have them
//! smoothness   mean (x - blur(x))^2: neighboring pixels that are alike
//! ```
//! Source: Babakniya et al. (MFCL), NeurIPS 2023, after Smith et al., "Always Be Dreaming" (ICCV 2021), and their
//! releases. Scores `s` are those of the classes seen.

mod blur;
mod content;
mod diversity;
#[cfg(test)]
pub(crate) mod golden;
mod statistics;
mod training;

pub use blur::smoothness;
pub use content::content;
pub(crate) use content::largest;
pub use diversity::diversity;
pub use statistics::{norm_statistics, normal_divergence};
pub use training::{InversionLoss, InversionSteps, InversionTerms, train_generator};
