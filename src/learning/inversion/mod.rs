//! Images from a model alone: losses with which a generator learns to produce a classifier's classes without data.
//!
//! ```text
//! content      CE(s / T, argmax s): images that the model classifies with confidence
//! diversity    1 + sum_c p_c ln p_c / ln K,  p the mean softmax(s) of a batch: all classes equally often
//! statistics   mean over batch norms of KL(N(mu_run, var_run) | N(mu, var)): features as real images have them
//! smoothness   mean (x - blur(x))^2: neighboring pixels that are alike
//! norms        sum over batch norms of |var_run - var|_2 + |mu_run - mu|_2, smoothed over calls
//! adversarial  -mean [argmax s = argmax f] KL(f | s): images on which a student differs from its teacher
//! ```
//! Source: Babakniya et al. (MFCL), NeurIPS 2023, after Smith et al., "Always Be Dreaming" (ICCV 2021), and their
//! releases; norms and adversarial: Zhang et al. (TARGET), ICCV 2023, and Tran et al. (LANDER), CVPR 2024. Scores `s`
//! are those of the classes seen.

mod adversarial;
mod augmentation;
mod blur;
mod content;
mod diversity;
#[cfg(test)]
pub(crate) mod golden;
mod image_pool;
mod norm_distance;
mod statistics;
mod student;
mod training;

pub use adversarial::adversarial;
pub use augmentation::{CropFlip, CropWindow};
pub use blur::smoothness;
pub use content::content;
pub(crate) use content::largest;
pub use diversity::diversity;
pub use image_pool::{ImagePool, PoolReplay};
pub use norm_distance::SmoothedMoments;
pub use statistics::norm_statistics;
pub use student::{StudentTraining, student_start};
pub use training::{InversionLoss, InversionSteps, train_generator};
