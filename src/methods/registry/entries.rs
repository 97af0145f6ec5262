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
        hgp::entry().of_family(Statistics),
        fedavg::entry().of_family(Averaging),
        joint::entry().of_family(Bounds),
        adapter::entry().of_family(Adapters),
        stsa::entry().of_family(Statistics),
        stsa::estimating_entry().of_family(Statistics),
        fedavg_prompt::entry().of_family(Prompts),
        hepco::entry().of_family(Prompts),
        fedhaf::entry().of_family(Rehearsal),
        fedprox::entry().of_family(Averaging),
        fedlwf_2t::entry().of_family(Distillation),
        lwf::entry().of_family(Distillation),
        fedlwf_mc::entry().of_family(Distillation),
        mfcl::entry().of_family(Distillation),
        lander::entry().of_family(Distillation),
        target::entry().of_family(Distillation),
        fedcil::entry().of_family(Distillation),
        fedproto::entry().of_family(Statistics),
        ccvr::entry().of_family(Statistics),
        oracle::entry().of_family(Bounds),
        l2p::entry().of_family(Prompts),
        dualprompt::entry().of_family(Prompts),
        pip::entry().of_family(Prompts),
        coda_prompt::entry().of_family(Prompts),
        fed_cprompt::entry().of_family(Prompts),
        powder::entry().of_family(Prompts),
        c2prompt::entry().of_family(Prompts),
        fedavgm::entry().of_family(Averaging),
        fedopt::entry(ServerOptimizer::Adagrad).of_family(Averaging),
        fedopt::entry(ServerOptimizer::Adam).of_family(Averaging),
        fedopt::entry(ServerOptimizer::Yogi).of_family(Averaging),
        scaffold::entry().of_family(Averaging),
        feddc::entry().of_family(Averaging),
        gradma::entry().of_family(Averaging),
        fisheravg::entry().of_family(Averaging),
        ewc::entry().of_family(Distillation),
        er::entry().of_family(Rehearsal),
        der::entry().of_family(Rehearsal),
        icarl::entry().of_family(Rehearsal),
        glfc::entry().of_family(Rehearsal),
        glfc::lga_entry().of_family(Rehearsal),
        cfed::entry().of_family(Distillation),
        pilora::entry().of_family(Adapters),
        lorm::entry().of_family(Adapters),
        fedweit::entry().of_family(Distillation),
        regmean::entry().of_family(Averaging),
    ]
}
