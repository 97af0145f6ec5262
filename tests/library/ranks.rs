//! Promise: a run has the same digests and bytes on one process and on several, whichever ranks are lost and in
//! whatever order answers come. Here other processes are threads that exchange the same packets.

use std::collections::BTreeSet;

use fedcast::experiment::assemble::{Assembly, assemble_by};
use fedcast::experiment::ranks::{ComputeResources, Ranks};
use fedcast::federation::remote::{InjectedFault, Rank};
use fedcast::federation::{Interrupt, MemorySink, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use crate::frozen::cases::{self, Case};
use crate::frozen::compare;
use crate::frozen::outcome::{Outcome, by, of};

/// Three ranks, this one among them.
fn roster(fault: InjectedFault) -> Ranks {
    Ranks::loopback(2, fault).expect("threads start")
}

/// Runs every method of a family as it is, also on the features of another one, and one case of everything that may be
/// done to its messages, on three ranks, with another fault each time. They come to what is recorded of one process.
fn same(family: &str) {
    let mut services = BTreeSet::new();
    let staged = |case: &Case| case.overrides.iter().any(|set| set.contains("first="));
    let taken = |case: &Case| match case.service {
        "plain" => !case.method.contains('/') || staged(case),
        service => services.insert(service),
    };
    let all = cases::all().into_iter();
    let cases = all.filter(|case| case.family == family && case.by_default).filter(taken);
    let found = cases.enumerate().map(|(number, case)| {
        let fault = match number % 3 {
            0 => InjectedFault::Nothing,
            1 => InjectedFault::Shuffles(number as u64),
            _ => InjectedFault::Loses {
                rank: Rank(1 + number as u32 % 2),
                after: 2 + number as u32 % 5,
            },
        };
        (by(&case, Some(roster(fault))), case)
    });
    compare(found.collect());
}

#[test]
fn gaussians() {
    same("gaussians");
}

#[test]
fn averages() {
    same("averages");
}

#[test]
fn teachers() {
    same("teachers");
}

#[test]
fn prompts() {
    same("prompts");
}

#[test]
fn statistics() {
    same("statistics");
}

#[test]
fn client_tasks() {
    same("slots");
}

/// A case by its name.
fn case(name: &str) -> Case {
    cases::all().into_iter().find(|case| case.name() == name).expect("is a case")
}

#[test]
fn a_rank_may_be_lost_at_any_job() {
    let case = case("scaffold plain");
    let alone = of(&case).expect("runs");
    for after in 1..=12 {
        for rank in [Rank(1), Rank(2)] {
            let roster = roster(InjectedFault::Loses { rank, after });
            let ran = by(&case, Some(roster));
            // The first packet says what the rank is: without it the run does not begin.
            let expected = if after == 1 { Ok(Outcome::Refused) } else { Ok(alone.clone()) };
            assert_eq!(ran, expected, "{rank} after {after}");
        }
    }
}

#[test]
fn other_ranks_do_a_part_of_the_work() {
    let scenario = |text: &str| {
        let base = crate::frozen::cases::BASE;
        let overrides = text.split(" ; ").map(Override::new).collect::<Vec<_>>();
        Scenario::from_toml(base, "frozen", ".".as_ref(), &overrides, &Registry::builtin())
    };
    let scenario = scenario("method={name=\"fedavg\",train=\"head\"} ; record.evaluate=round");
    let resources = ComputeResources { workers: None, ranks: Some(roster(InjectedFault::Nothing)) };
    let assembly =
        assemble_by(&scenario.expect("is valid").scenario, &Registry::builtin(), &resources);
    let Assembly { setup, roster, .. } = assembly.expect("all agree");
    let silent = || Box::new(MemorySink::default());
    simulate(setup, silent(), Box::new(()), Interrupt::default()).expect("ends well");
    let ranks = roster.expect("three ranks").at_work();
    let jobs: Vec<u64> = ranks.iter().map(|rank| rank.jobs).collect();
    assert_eq!((jobs.len(), jobs[0]), (3, 0), "rank 0 asks nobody but itself");
    assert!(jobs[1] + jobs[2] > 0, "{jobs:?}");
}
