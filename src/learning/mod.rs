//! Learning: optimizers, losses, local training, head training, evaluation, metrics.
//!
//! ```text
//! Loader -> train(plan, trainables, forward) -> TrainingReport     (local_training)
//! K Loaders -> train_pack(plan, stacked trainables, ...) -> K of them
//! Batch  -> loss -> gradients -> Optimizer::step                   (losses, optimizer)
//! received parameters -> Classifier (backbone, prompt, head)          (classifier)
//! parameters, samples -> FisherPass -> Diagonal                    (fisher)
//! samples -> InputMoments: X^T X of linear layers               (input_moments)
//! frozen part, samples -> FeatureStore -> Batch::Features          (feature_cache)
//! earlier parameters -> Teacher -> logits that a student learns from  (teacher)
//! features of a class -> Herding -> samples a client keeps           (herding)
//! features, class Gaussians -> losses of a compensation prompt     (compensation)
//! a gradient that was sent -> Matching -> an image              (gradient_matching)
//! a classifier alone -> losses of a generator -> images           (inversion)
//! features drawn on the server -> HeadTraining::run -> Head        (head_training)
//! Loader -> evaluate(scorer) -> Tally -> AccuracyMatrix -> FAA     (evaluation, client_task_answers, metrics)
//! ```
//!
//! Nothing here knows clients, rounds or messages. All sums run in a fixed order and all
//! randomness comes in from named streams.

mod classifier;
mod client_task_answers;
pub mod compensation;
mod error;
pub mod evaluation;
pub mod exemplars;
pub mod feature_cache;
pub mod feature_inversion;
pub mod fisher;
pub mod gradient_matching;
pub(crate) mod head_training;
mod herding;
mod input_moments;
pub(crate) mod inversion;
mod local_training;
pub mod losses;
pub mod metrics;
pub mod optimizer;
pub mod prompting;
mod step_count;
mod teacher;
mod whole_gradient;

pub use classifier::{
    Classifier, PackLogits, PackOutputs, PromptShape, head_rows, prompt_name, with_head_rows,
};
pub use client_task_answers::PredictionTask;
pub use error::LearningError;
pub use evaluation::{RowAnswer, Tally, evaluate};
pub use exemplars::{exemplars, kept};
pub use feature_cache::{CacheCounts, CacheError, FeatureCache, FeatureStore, Storage};
pub use head_training::{Head, HeadLoss, HeadTraining};
pub use herding::Herding;
pub use input_moments::{InputMoments, MomentForm};
pub use local_training::{
    MemberData, PackBatch, TrainingPlan, TrainingReport, train, train_pack, train_with,
};
pub use metrics::{AccuracyMatrix, ClientTaskAccuracies};
pub use optimizer::{Moments, Optimizer, OptimizerConfig, OptimizerState, Schedule};
pub use prompting::{PromptTensors, Prompting, QueryView};
pub use step_count::{CountedWork, StepCount, StepsSoFar};
pub use teacher::Teacher;
pub use whole_gradient::whole_gradient;
