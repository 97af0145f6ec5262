//! The methods of fedcast, as the registry lists them.

use crate::methods::MethodFamily::{
    Adapters, Averaging, Bounds, Distillation, Prompts, Rehearsal, Statistics,
};
use crate::methods::entry::MethodEntry;
use crate::methods::fedopt::ServerOptimizer;
use crate::methods::{
    adapter, c2prompt, ccvr, cfed, coda_prompt, der, dualprompt, er, ewc, fed_cprompt, fedavg,
    fedavg_prompt, fedavgm, fedcil, feddc, fedhaf, fedlwf_2t, fedlwf_mc, fedopt, fedproto, fedprox,
    fedweit, fisheravg, glfc, gradma, hepco, hgp, icarl, joint, l2p, lander, lorm, lwf, mfcl,
    oracle, pilora, pip, powder, regmean, scaffold, stsa, target,
};

/// Returns the built-in methods, in the order in which they are shown.
pub(super) fn builtin() -> Vec<MethodEntry> {
    vec![
        hgp::entry().of_family(Statistics).in_print("HGP"),
        fedavg::entry().of_family(Averaging).in_print("FedAvg"),
        joint::entry().of_family(Bounds).in_print("Joint"),
        adapter::entry().of_family(Adapters).in_print("Adapter"),
        stsa::entry().of_family(Statistics).in_print("STSA"),
        stsa::estimating_entry().of_family(Statistics).in_print("STSA-E"),
        fedavg_prompt::entry().of_family(Prompts).in_print("FedAvg-Prompt"),
        hepco::entry().of_family(Prompts).in_print("HePCo"),
        fedhaf::entry().of_family(Rehearsal).in_print("FedHAF"),
        fedprox::entry().of_family(Averaging).in_print("FedProx"),
        fedlwf_2t::entry().of_family(Distillation).in_print("FedLwF-2T"),
        lwf::entry().of_family(Distillation).in_print("LwF"),
        fedlwf_mc::entry().of_family(Distillation).in_print("FedLwF-MC"),
        mfcl::entry().of_family(Distillation).in_print("MFCL"),
        lander::entry().of_family(Distillation).in_print("LANDER"),
        target::entry().of_family(Distillation).in_print("TARGET"),
        fedcil::entry().of_family(Distillation).in_print("FedCIL"),
        fedproto::entry().of_family(Statistics).in_print("FedProto"),
        ccvr::entry().of_family(Statistics).in_print("CCVR"),
        oracle::entry().of_family(Bounds).in_print("Oracle"),
        l2p::entry().of_family(Prompts).in_print("L2P"),
        dualprompt::entry().of_family(Prompts).in_print("DualPrompt"),
        pip::entry().of_family(Prompts).in_print("PIP"),
        coda_prompt::entry().of_family(Prompts).in_print("CODA-Prompt"),
        fed_cprompt::entry().of_family(Prompts).in_print("Fed-CPrompt"),
        powder::entry().of_family(Prompts).in_print("Powder"),
        c2prompt::entry().of_family(Prompts).in_print("C²Prompt"),
        fedavgm::entry().of_family(Averaging).in_print("FedAvgM"),
        fedopt::entry(ServerOptimizer::Adagrad).of_family(Averaging).in_print("FedAdagrad"),
        fedopt::entry(ServerOptimizer::Adam).of_family(Averaging).in_print("FedAdam"),
        fedopt::entry(ServerOptimizer::Yogi).of_family(Averaging).in_print("FedYogi"),
        scaffold::entry().of_family(Averaging).in_print("SCAFFOLD"),
        feddc::entry().of_family(Averaging).in_print("FedDC"),
        gradma::entry().of_family(Averaging).in_print("GradMA"),
        fisheravg::entry().of_family(Averaging).in_print("FisherAVG"),
        ewc::entry().of_family(Distillation).in_print("EWC"),
        er::entry().of_family(Rehearsal).in_print("ER"),
        der::entry().of_family(Rehearsal).in_print("DER++"),
        icarl::entry().of_family(Rehearsal).in_print("iCaRL"),
        glfc::entry().of_family(Rehearsal).in_print("GLFC"),
        glfc::lga_entry().of_family(Rehearsal).in_print("LGA"),
        cfed::entry().of_family(Distillation).in_print("CFeD"),
        pilora::entry().of_family(Adapters).in_print("PILoRA"),
        lorm::entry().of_family(Adapters).in_print("LoRM"),
        fedweit::entry().of_family(Distillation).in_print("FedWEIT"),
        regmean::entry().of_family(Averaging).in_print("RegMean"),
    ]
}
