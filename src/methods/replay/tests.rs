use std::collections::BTreeSet;

use super::*;

/// The two draws of a step are independent, as are those of two steps. A draw has no slot twice, and all slots are met.
#[test]
fn draws_of_a_step_and_of_steps_are_apart() {
    let key = StreamKey::new(3, Domain::Method).client(2);
    let slots: Vec<usize> = (10..30).collect();
    let draw = |step, which| drawn_slots(key, &slots, (step, which), 5);
    let (mut apart, mut later, mut met) = (0, 0, BTreeSet::new());
    for step in 0..100 {
        let (first, second) = (draw(step, 0), draw(step, 1));
        for drawn in [&first, &second] {
            let distinct: BTreeSet<usize> = drawn.iter().copied().collect();
            assert!(distinct.len() == 5 && distinct.iter().all(|slot| slots.contains(slot)));
            met.extend(distinct);
        }
        apart += usize::from(first != second);
        later += usize::from(first != draw(step + 1, 0));
        later += usize::from(second != draw(step + 1, 0));
    }
    assert!(apart > 95 && later > 190, "{apart} {later}");
    assert_eq!(met.len(), 20);
    assert_eq!(draw(4, 1), draw(4, 1));
}

/// Two slots of one image: each has the logits of its visit.
#[test]
fn notes_are_those_of_a_slot_and_not_of_its_image() {
    let slot = |sample, logit| BufferedSample { sample, logits: vec![logit] };
    let held = [slot(7, 1.0), slot(7, 2.0), slot(3, 3.0)];
    assert_eq!(notes_of(&held, &[1, 2, 0]), [[2.0], [3.0], [1.0]]);
}
