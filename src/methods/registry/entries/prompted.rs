//! The methods whose prompts depend on a query.

use std::sync::Arc;

use crate::methods::MethodEntry;
use crate::methods::coda_prompt::{self, CodaConfig};
use crate::methods::dualprompt::{self, DualPromptConfig};
use crate::methods::fed_cprompt::{self, FedCPromptConfig};
use crate::methods::l2p::{self, L2pConfig};
use crate::methods::prompted::PromptedConfig;
use crate::policy::{ModelFacts, erase};

const STATE: &str = "server: all prompts and the head; client: nothing";

pub(super) fn l2p() -> MethodEntry {
    MethodEntry {
        name: "l2p",
        idea: "A pool of prompts with keys: the query of an image picks the nearest ones as tokens of a \
               frozen transformer; pool and head are averaged over clients.",
        source: "Wang et al.: Learning to Prompt for Continual Learning, CVPR 2022; averaged as in \
                 the benchmark of HGP, arXiv 2406.02447",
        state: STATE,
        messages: "down: pool, keys, head; up: the same and the sample count",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let (config, shared) = (L2pConfig::read(table), PromptedConfig::read(table));
            Box::new(move |facts: &ModelFacts| {
                erase(l2p::method(config.clone(), shared.clone(), facts))
            })
        }),
        check: l2p::check,
    }
}

pub(super) fn dualprompt() -> MethodEntry {
    MethodEntry {
        name: "dualprompt",
        idea: "General prefixes for all tasks and one expert's per task, chosen by its key at inference; \
               averaged over clients.",
        source: "Wang et al.: DualPrompt: Complementary Prompting for Rehearsal-free Continual \
                 Learning, ECCV 2022; averaged as in the benchmark of HGP, arXiv 2406.02447",
        state: STATE,
        messages: "down: prefixes, keys, head; up: the same and the sample count; in the lean form \
                   both ways the general prefixes, the task's expert and key, and the task's head rows",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let (config, shared) = (DualPromptConfig::read(table), PromptedConfig::read(table));
            Box::new(move |facts: &ModelFacts| {
                erase(dualprompt::method(config.clone(), shared.clone(), facts))
            })
        }),
        check: dualprompt::check,
    }
}

pub(super) fn coda_prompt() -> MethodEntry {
    MethodEntry {
        name: "coda-prompt",
        idea: "A prefix is a sum of components weighted by the query; each task adds orthogonal ones, and \
               older ones are frozen; averaged over clients.",
        source: "Smith et al.: CODA-Prompt: COntinual Decomposed Attention-based Prompting for \
                 Rehearsal-Free Continual Learning, CVPR 2023; averaged as in HGP, arXiv 2406.02447, \
                 and as Fed-CODAP in STSA, arXiv 2506.01327",
        state: STATE,
        messages: "down: components, keys, attention, head; up: the same and the sample count; in the \
                   lean form up only what the task trains",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let (config, shared) = (CodaConfig::read(table), PromptedConfig::read(table));
            Box::new(move |facts: &ModelFacts| {
                erase(coda_prompt::method(config.clone(), shared.clone(), facts))
            })
        }),
        check: coda_prompt::check,
    }
}

pub(super) fn fed_cprompt() -> MethodEntry {
    MethodEntry {
        name: "fed-cprompt",
        idea: "CODA-Prompt's components with a contrastive loss that keeps the client's model near the \
               one it received and away from that of the previous task.",
        source: "Fed-CPrompt: Contrastive Prompt for Rehearsal-Free Federated Continual Learning, \
                 arXiv 2307.04869",
        read: Arc::new(|table| {
            let (config, shared) = (FedCPromptConfig::read(table), PromptedConfig::read(table));
            Box::new(move |facts: &ModelFacts| {
                erase(fed_cprompt::method(config.clone(), shared.clone(), facts))
            })
        }),
        check: fed_cprompt::check,
        ..coda_prompt()
    }
}
