//! Small studies, each with the command that made its numbers, their date, and notes on stale numbers.
//!
//! The pages are next to their scenarios in `scenarios/studies/`. Most need no download; those named after a
//! network or a text need data and weights, which their headers name.

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/async-vs-sync.md")]
pub mod async_vs_sync {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/availability.md")]
pub mod availability {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/baselines.md")]
pub mod baselines {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/baselines-digits.md")]
pub mod baselines_digits {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/c2prompt-cifar100-vit-tiny.md")]
pub mod c2prompt_cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/c2prompt-digits.md")]
pub mod c2prompt_digits {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/cifar100-vit-tiny.md")]
pub mod cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/client-drift.md")]
pub mod client_drift {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/clients-1000.md")]
pub mod clients_1000 {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/fed-cprompt-digits.md")]
pub mod fed_cprompt_digits {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/federated-bias.md")]
pub mod federated_bias {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/fedhaf-cifar100-vit-tiny.md")]
pub mod fedhaf_cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/fedhaf-shakespeare-random-bert.md")]
pub mod fedhaf_shakespeare_random_bert {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/hepco-cifar100-vit-tiny.md")]
pub mod hepco_cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/hepco-digits.md")]
pub mod hepco_digits {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/logistic-regression.md")]
pub mod logistic_regression {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/malicious.md")]
pub mod malicious {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/mfcl-cifar100-resnet18.md")]
pub mod mfcl_cifar100_resnet18 {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/participation-100.md")]
pub mod participation_100 {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/population-100000.md")]
pub mod population_100000 {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/prompts-cifar100-vit-tiny.md")]
pub mod prompts_cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/scale.md")]
pub mod scale {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/client-tasks.md")]
pub mod client_tasks {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/stragglers.md")]
pub mod stragglers {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/stsa-cifar100-vit-tiny.md")]
pub mod stsa_cifar100_vit_tiny {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/stsa-pilora-digits.md")]
pub mod stsa_pilora_digits {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../../scenarios/studies/task-arrival.md")]
pub mod task_arrival {}
