//! What some methods need in a scenario that others do without.

/// Something that a scenario has for the sake of its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Steps of plain SGD, from which the method reads gradients.
    PlainSgd,
    /// A pool of components with so many for every task.
    ComponentsOfATask(u32),
    /// Samples that no client has, for methods that distil on such.
    SamplesOfNobody,
}

/// Components of a task that are tried; a pool of all tasks has no more than features have numbers.
const COMPONENTS: [u32; 5] = [10, 6, 4, 2, 1];

/// Sets of needs, the smallest first: a scenario has the first with which it is valid.
pub(super) fn candidates() -> Vec<Vec<Need>> {
    let pools = COMPONENTS.map(Need::ComponentsOfATask);
    let single = [Need::PlainSgd, Need::SamplesOfNobody].into_iter().chain(pools);
    let beside = |other: Need| pools.into_iter().map(move |pool| vec![other, pool]);
    let mut all = vec![Vec::new()];
    all.extend(single.map(|need| vec![need]));
    all.push(vec![Need::PlainSgd, Need::SamplesOfNobody]);
    all.extend(beside(Need::PlainSgd).chain(beside(Need::SamplesOfNobody)));
    all
}
