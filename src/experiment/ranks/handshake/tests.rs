//! Ranks that agree, and ranks that do not.

use super::*;
use crate::experiment::assemble::assemble_by;
use crate::experiment::ranks::ComputeResources;

const TEXT: &str = r#"
    schema = 2
    data = { source = "digits", subset = 4 }
    tasks = { sizes = [5, 5] }
    partition = { kind = "iid" }
    method = { name = "fedavg", train = "head" }
    federation = { clients = 2, rounds = 1 }
    client = { epochs = 1 }
    devices = { workers = 1 }
"#;

/// Returns the result of rank 0 if another rank gets another text, or sends another fingerprint.
fn found(
    received: fn(String) -> String,
    says: fn(&mut RankFingerprint),
) -> Result<Assembly, AssembleError> {
    let methods = Registry::builtin();
    let line = loopback(2, InjectedFault::Nothing, move |rank, line| {
        let methods = Registry::builtin();
        if rank == Rank(1) {
            return work(rank, &line, &methods, None).expect("rank 0 lives");
        }
        let Ok(Some(HandshakeRequest::Prepare { scenario })) = receive(&line) else { return };
        let reply = match put_together(rank, &received(scenario), &methods, None) {
            Ok((mut fingerprint, _)) => {
                says(&mut fingerprint);
                HandshakeReply::Present(Box::new(fingerprint))
            }
            Err(error) => HandshakeReply::Unable(error.to_string()),
        };
        line.send(Rank::ZERO, say(&reply));
        while let Ok(Some(_)) = receive(&line) {}
    });
    let ranks = Some(Ranks::new(line.expect("threads start"), 2));
    let read = Scenario::from_toml(TEXT, "text", Path::new("."), &[], &methods);
    assemble_by(
        &read.expect("is valid").scenario,
        &methods,
        &ComputeResources { workers: None, ranks },
    )
}

fn refused(ended: Result<Assembly, AssembleError>) -> String {
    ended.err().expect("is refused").to_string()
}

#[test]
fn ranks_that_agree_begin_and_the_pack_is_the_least() {
    let assembly = found(|text| text, |c| c.pack = 3).expect("all agree");
    let roster = assembly.roster.expect("three ranks");
    assert!(roster.lost().is_empty());
    assert_eq!(roster.ranks.iter().map(|rank| rank.rank.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(assembly.setup.rules.pack, 1, "one on a CPU, whatever others could");
    assert_eq!(assembly.setup.fleet.map(|fleet| fleet.ranks.len()), Some(2));
}

#[test]
fn a_rank_with_another_scenario_is_refused() {
    let error = refused(found(|text: String| text.replace("clients = 2", "clients = 3"), |_| {}));
    assert!(error.contains("scenario") && error.contains("\n  2 "), "{error}");
    assert!(!error.contains("arithmetic"), "{error}");
}

#[test]
fn a_rank_with_another_arithmetic_is_refused() {
    let error = refused(found(|text| text, |c| c.machine.arithmetic = "fixed-0".into()));
    assert!(error.contains("fixed-0") && error.contains("same version"), "{error}");
}

#[test]
fn a_rank_on_another_kind_of_machine_takes_part() {
    let says = |c: &mut RankFingerprint| {
        c.machine.cpu = "another".into();
        c.machine.vectors = "portable".into();
    };
    let roster = found(|text| text, says).expect("goes on").roster.expect("three ranks");
    assert_eq!(roster.ranks[2].machine.vectors, "portable");
}

#[test]
fn a_rank_that_lacks_something_says_what() {
    let error = refused(found(|text| text.replace("\"fedavg\"", "\"fedavgg\""), |_| {}));
    assert!(error.starts_with("rank 2 cannot take part: ") && error.contains("fedavg"), "{error}");
}
