//! Additions to a scenario that only some methods need.

/// Addition to a scenario for its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Steps of plain SGD, from which the method reads gradients.
    PlainSgd,
    /// A pool of components with this number for each task.
    ComponentsOfATask(u32),
    /// Samples that no client has, for methods that distill on them.
    AuxiliarySamples,
}

/// Numbers of components per task to try; the pool of all tasks has at most the feature dimension.
const COMPONENTS: [u32; 5] = [10, 6, 4, 2, 1];

/// Returns sets of additions, smallest first; a scenario gets the first one that makes it valid.
pub(super) fn candidates() -> Vec<Vec<Need>> {
    let pools = COMPONENTS.map(Need::ComponentsOfATask);
    let single = [Need::PlainSgd, Need::AuxiliarySamples].into_iter().chain(pools);
    let with_pools = |other: Need| pools.into_iter().map(move |pool| vec![other, pool]);
    let mut all = vec![Vec::new()];
    all.extend(single.map(|need| vec![need]));
    all.push(vec![Need::PlainSgd, Need::AuxiliarySamples]);
    all.extend(with_pools(Need::PlainSgd).chain(with_pools(Need::AuxiliarySamples)));
    all
}
