//! The methods of fedcast, as the registry lists them.

mod prompted;

use std::sync::Arc;

use super::MethodEntry;
use crate::methods::adapter::{self, AdapterConfig, AdapterMethod};
use crate::methods::c2prompt::{self, C2Prompt, C2PromptConfig};
use crate::methods::fedavg::{self, FedAvg, FedAvgConfig};
use crate::methods::fedavg_prompt::{self, FedAvgPrompt, FedAvgPromptConfig};
use crate::methods::fedhaf::{self, FedHaf, FedHafConfig};
use crate::methods::fedlwf_2t::{self, FedLwf2t, FedLwf2tConfig};
use crate::methods::fedprox::{self, FedProx, FedProxConfig};
use crate::methods::hepco::{self, Hepco, HepcoConfig};
use crate::methods::hgp::{self, Hgp, HgpConfig};
use crate::methods::joint::{self, Joint, JointConfig};
use crate::methods::oracle::{self, Oracle, OracleConfig};
use crate::methods::powder::{self, Powder, PowderConfig};
use crate::methods::stsa::{self, Stsa, StsaConfig};
use crate::policy::{AnyMethod, ModelFacts, erase};

/// All of them, in the order in which they are shown.
pub(super) fn builtin() -> Vec<MethodEntry> {
    vec![
        hgp_entry(),
        fedavg_entry(),
        joint_entry(),
        adapter_entry(),
        stsa_entry(),
        stsa_e_entry(),
        fedavg_prompt_entry(),
        hepco_entry(),
        fedhaf_entry(),
        fedprox_entry(),
        fedlwf_2t_entry(),
        oracle_entry(),
        prompted::l2p(),
        prompted::dualprompt(),
        prompted::coda_prompt(),
        prompted::fed_cprompt(),
        powder_entry(),
        c2prompt_entry(),
    ]
}

fn hgp_entry() -> MethodEntry {
    MethodEntry {
        name: "hgp",
        idea: "One prefix prompt and a linear head on a frozen backbone, averaged over clients; \
               after every round the server rebalances the head on features drawn from the \
               clients' per-class Gaussians.",
        source: "Salami, Buzzega, Mosconi, Verasani, Calderara: Federated Class-Incremental \
                 Learning with Hierarchical Generative Prototypes, arXiv 2406.02447",
        state: "server: prompt, head, a Gaussian per class and client; client: nothing",
        messages: "down: prompt, head; up: prompt, head, sample count, and per class with at \
                   least two samples (n, mean, variance)",
        clip: Some(1.0),
        upon_features: false,
        read: Arc::new(|table| {
            let config = HgpConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(Hgp::new(config.clone(), facts)))
        }),
        check: hgp::check,
    }
}

fn fedavg_entry() -> MethodEntry {
    MethodEntry {
        name: "fedavg",
        idea: "Every client trains what the server sent; the server takes the mean weighted by \
               sample counts. Only the loss mask protects old classes: the lower bound.",
        source: "McMahan et al.: Communication-Efficient Learning of Deep Networks from \
                 Decentralized Data, AISTATS 2017",
        state: "server: the parameters that train; client: nothing",
        messages: "down: the parameters that train; up: the same and the sample count",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = FedAvgConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(FedAvg::new(config.clone(), facts)))
        }),
        check: fedavg::check,
    }
}

fn fedavg_prompt_entry() -> MethodEntry {
    MethodEntry {
        name: "fedavg-prompt",
        idea: "HePCo's client with plain averaging: a pool of prompts per block, all of them used, weighted by \
               the cosines of their keys with a query, and a linear head.",
        source: "Halbe, Smith, Tian, Kira: Continual Adaptation of Vision Transformers for Federated \
                 Learning, TMLR 2024 (a baseline)",
        state: "server: prompts, keys, head; client: nothing",
        messages: "down: prompts, keys, head; up: the same and the sample count",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = FedAvgPromptConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(FedAvgPrompt::new(config, facts)))
        }),
        check: fedavg_prompt::check,
    }
}

fn powder_entry() -> MethodEntry {
    MethodEntry {
        name: "powder",
        idea: "Every client and task have a slot of their own: components that become tokens in some blocks, and \
               head rows. Slots whose samples attend to the same components lend each other theirs.",
        source: "Powder: Federated Continual Learning via Prompt-based Dual Knowledge Transfer, ICML 2024 (the \
                 released code)",
        state: "server: all slots and their similarities; client: nothing",
        messages: "down: the slot and the sums of other slots' components that it mixes with its own; up: the slot; \
                   as a period ends and begins, keys and attention of all slots down, mean scores by class up",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = PowderConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(Powder::new(config.clone(), facts)))
        }),
        check: powder::check,
    }
}

fn c2prompt_entry() -> MethodEntry {
    MethodEntry {
        name: "c2prompt",
        idea: "Powder with class-aware interaction: tokens per class that move a client's features towards the \
               Gaussian of all clients' features, in half of the training steps, and a server that mixes components \
               by the classes that they match.",
        source: "C2Prompt: Class-aware Client Knowledge Interaction for Federated Continual Learning, NeurIPS 2025, \
                 arXiv 2509.19674 (a review of it)",
        state: "server: all slots, their similarities, moments of the period; client: three tokens per class of its \
                slot",
        messages: "Powder's; in round 0 moments by class up, Gaussians down; scores of components for classes up",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = C2PromptConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(C2Prompt::new(config.clone(), facts)))
        }),
        check: c2prompt::check,
    }
}

fn hepco_entry() -> MethodEntry {
    MethodEntry {
        name: "hepco",
        idea: "FedAvg-Prompt whose server repairs the mean without data: generators make pseudo-queries of new \
               and old classes, on which prompts and head are distilled from clients and from the last \
               task's server.",
        source: "Halbe, Smith, Tian, Kira: Continual Adaptation of Vision Transformers for Federated \
                 Learning, TMLR 2024",
        state: "server: prompts, keys, head, the same of the last task's end, label counts; client: nothing",
        messages: "down: prompts, keys, head; up: the same and the label counts of the task's classes",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = HepcoConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(Hepco::new(config.clone(), facts)))
        }),
        check: hepco::check,
    }
}

fn adapter_entry() -> MethodEntry {
    MethodEntry {
        name: "adapter",
        idea: "A bottleneck adapter in every block of a frozen transformer and a cosine head, \
               averaged over clients; STSA's first stage.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327; adapters: Chen et al., AdaptFormer, NeurIPS 2022",
        state: "server: adapters and head; client: nothing",
        messages: "down: adapters and head; up: the same and the sample count",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = AdapterConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(AdapterMethod::new(config.clone(), facts)))
        }),
        check: adapter::check,
    }
}

fn joint_entry() -> MethodEntry {
    MethodEntry {
        name: "joint",
        idea: "One site with all data and all classes at once, one optimiser for the whole run: \
               the upper bound.",
        source: "the usual reference; no paper of the benchmark states its recipe",
        state: "client: its optimiser between rounds; server: the parameters",
        messages: "nothing crosses a network",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = JointConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(Joint::new(config.clone(), facts)))
        }),
        check: joint::check,
    }
}

fn stsa_entry() -> MethodEntry {
    MethodEntry {
        name: "stsa",
        idea: "A ridge head on random ReLU features of a frozen network, in closed form, from Gram \
               matrices and class sums that add over clients and tasks; no gradient.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327",
        state: "server: the sums and the head; client: nothing",
        messages: "down: a seed; up, once per task: Gram matrix (D x D), sums of the task's classes",
        clip: None,
        upon_features: true,
        read: Arc::new(|table| {
            let config = StsaConfig::exact(table);
            Box::new(move |facts: &ModelFacts| -> Arc<dyn AnyMethod> {
                Arc::new(Stsa::new(config, facts))
            })
        }),
        check: stsa::check,
    }
}

fn stsa_e_entry() -> MethodEntry {
    MethodEntry {
        name: "stsa-e",
        idea: "STSA whose clients send class sums and counts only: the server estimates the Gram \
               matrix from the scatter of the units' class means.",
        messages: "down: a seed; up, once per task and unit: sums and counts of the task's classes",
        read: Arc::new(|table| {
            let config = StsaConfig::estimated(table);
            Box::new(move |facts: &ModelFacts| -> Arc<dyn AnyMethod> {
                Arc::new(Stsa::new(config, facts))
            })
        }),
        ..stsa_entry()
    }
}

fn fedhaf_entry() -> MethodEntry {
    MethodEntry {
        name: "fedhaf",
        idea: "A small module adjusts the features of a frozen extractor, a head with batch norm \
               classifies them; each client keeps a share of its samples, chosen by herding, and \
               distils first the head, then the module, from the model of the previous task.",
        source: "FedHAF, federated hierarchical anti-forgetting (conference submission)",
        state: "client: exemplars; server: module, head, and both as the previous task left them",
        messages: "down: module and head, once per task the previous ones; up: the same and the \
                   sample count",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = FedHafConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(FedHaf::new(config.clone(), facts)))
        }),
        check: fedhaf::check,
    }
}

fn fedprox_entry() -> MethodEntry {
    MethodEntry {
        name: "fedprox",
        idea: "FedAvg whose clients are pulled towards the weights they received.",
        source: "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
        state: "server: the parameters; client: nothing",
        messages: "as fedavg: nothing is sent for the pull",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = FedProxConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(FedProx::new(config.clone(), facts)))
        }),
        check: fedprox::check,
    }
}

fn fedlwf_2t_entry() -> MethodEntry {
    MethodEntry {
        name: "fedlwf-2t",
        idea: "FedAvg with two teachers and no memory of samples: the client's own model of an \
               earlier task, and the model the server just sent.",
        source: "Usmanova et al., A distillation-based approach integrating continual learning and \
                 federated learning, arXiv 2109.04197",
        state: "server: the parameters; client: its last model, and the last one of an earlier task \
                (nothing if the first teacher is the server's)",
        messages: "as fedavg, for both teachers are with the client; else once per task the \
                   parameters that the task before left",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = FedLwf2tConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(FedLwf2t::new(config.clone(), facts)))
        }),
        check: fedlwf_2t::check,
    }
}

fn oracle_entry() -> MethodEntry {
    MethodEntry {
        name: "oracle",
        idea: "All data of the tasks so far, in every task: at one site, or at the clients that \
               held it; the upper bound along the tasks.",
        source: "the Oracle rows of FedHAF (central) and of MFCL's code (clients)",
        state: "client: everything it has held; server: the parameters",
        messages: "central: nothing; clients: as fedavg",
        clip: None,
        upon_features: false,
        read: Arc::new(|table| {
            let config = OracleConfig::read(table);
            Box::new(move |facts: &ModelFacts| erase(Oracle::new(config.clone(), facts)))
        }),
        check: oracle::check,
    }
}
