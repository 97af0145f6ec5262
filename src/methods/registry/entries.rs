//! The methods of fedcast, as the registry lists them.

use super::MethodEntry;
use crate::methods::{
    adapter, c2prompt, ccvr, coda_prompt, der, dualprompt, er, ewc, fed_cprompt, fedavg,
    fedavg_prompt, feddc, fedhaf, fedlwf_2t, fedproto, fedprox, fisheravg, gradma, hepco, hgp,
    icarl, joint, l2p, lorm, lwf, oracle, pilora, powder, regmean, scaffold, stsa,
};

/// All of them, in the order in which they are shown.
pub(super) fn builtin() -> Vec<MethodEntry> {
    vec![
        hgp::entry(),
        fedavg::entry(),
        joint::entry(),
        adapter::entry(),
        stsa::entry(),
        stsa::estimating_entry(),
        fedavg_prompt::entry(),
        hepco::entry(),
        fedhaf::entry(),
        fedprox::entry(),
        fedlwf_2t::entry(),
        lwf::entry(),
        lwf::multi_class_entry(),
        fedproto::entry(),
        ccvr::entry(),
        oracle::entry(),
        l2p::entry(),
        dualprompt::entry(),
        coda_prompt::entry(),
        fed_cprompt::entry(),
        powder::entry(),
        c2prompt::entry(),
        scaffold::entry(),
        feddc::entry(),
        gradma::entry(),
        fisheravg::entry(),
        ewc::entry(),
        er::entry(),
        der::entry(),
        icarl::entry(),
        pilora::entry(),
        regmean::entry(),
        lorm::entry(),
    ]
}
