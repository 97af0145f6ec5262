use proptest::prelude::*;

use super::*;
use crate::golden::Golden;

fn rows_of(values: &[f64], width: usize) -> Vec<&[f64]> {
    values.chunks(width).collect()
}

/// The solution of both solvers, which agree, or nothing by both.
fn solved(g: &[f64], rows: &[&[f64]], rho: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    let program = Program::of(g, rows, rho);
    let (tried, found) = (program.by_enumeration(), program.by_active_sets());
    assert_eq!(tried.is_some(), found.is_some(), "{program:?}");
    let (tried, found) = (tried?, found?);
    let (u, other) = (moved(g, rows, &tried), moved(g, rows, &found));
    let size = product(g, g).sqrt();
    for (u, other) in u.iter().zip(&other) {
        assert!((u - other).abs() <= 1e-8 * size.max(1.0), "{u} {other}");
    }
    Some((u, tried))
}

#[test]
fn golden_projections_on_cones() {
    let Some(golden) = Golden::open("gradma") else { return };
    for name in ["qp3", "qp5"] {
        let at = |part: &str| format!("{name}.{part}");
        let shape = golden.shape(&at("R"));
        let (count, width) = (shape[1], shape[2]);
        let (all, vectors, rho) =
            (golden.f64(&at("R")), golden.f64(&at("g")), golden.f64(&at("rho")));
        let feasible = golden.i64(&at("feasible"));
        let (mut us, mut zs, mut active) = (Vec::new(), Vec::new(), Vec::new());
        for instance in 0..shape[0] {
            let rows = rows_of(&all[instance * count * width..][..count * width], width);
            let g = &vectors[instance * width..][..width];
            let found = solved(g, &rows, rho[instance]);
            assert_eq!(found.is_some(), feasible[instance] == 1, "{name} {instance}");
            let (u, z) = found.unwrap_or_else(|| (g.to_vec(), vec![0.0; count]));
            active.extend(z.iter().map(|z| f64::from(u8::from(*z > 0.0))));
            us.extend(u);
            zs.extend(z);
        }
        golden.assert_close(&at("u"), &us);
        golden.assert_close(&at("z"), &zs);
        golden.assert_close(&at("active"), &active);
    }
}

/// Card, invariant 2: with one row `g~ = g - min(0, <g, r> / |r|^2) r`.
#[test]
fn one_row_takes_away_what_is_against_it() {
    let row = [2.0f64, 0.0, 1.0];
    for g in [[1.0f64, 5.0, 1.0], [-3.0, 1.0, 0.5], [0.0, 1.0, 0.0]] {
        let along = product(&g, &row) / product(&row, &row);
        let (u, _) = solved(&g, &[&row], 0.0).unwrap();
        for ((u, g), r) in u.iter().zip(&g).zip(&row) {
            assert!((u - (g - along.min(0.0) * r)).abs() < 1e-12);
        }
    }
}

/// Whatever is no constraint leaves the vector as it is, to the bit: no row, rows of zeros, rows that agree.
#[test]
fn what_asks_for_nothing_changes_nothing() {
    let g = [0.1f64, -0.7, 0.3];
    let no_vectors: [&[f64]; 0] = [];
    assert_eq!(solved(&g, &no_vectors, 0.1).unwrap().0, g);
    assert_eq!(solved(&g, &[&[0.0; 3], &g, &g], 0.9).unwrap().0, g);
    assert_eq!(solved(&[0.0; 3], &[&g], 0.9).unwrap().0, [0.0; 3]);
    // Opposite rows: together they leave a plane at rho 0, and nothing beyond.
    let back = g.map(|value| -value);
    let (u, _) = solved(&[1.0, 0.0, 0.0], &[&g, &back], 0.0).unwrap();
    assert!(product(&u, &g).abs() < 1e-12);
    assert!(solved(&[1.0, 0.0, 0.0], &[&g, &back], 0.1).is_none());
}

/// In a plane the row in the middle lacks most, and the two outside ask for more: all three are active for a moment,
/// one more than can be independent, and the middle one leaves.
#[test]
fn a_row_that_was_let_in_leaves_again() {
    let towards = |degrees: f64| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    let rows = [towards(0.0), towards(30.0), towards(60.0)];
    let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
    for g in [towards(210.0), towards(205.0), towards(217.0)] {
        let (u, z) = solved(&g, &rows, 0.4).unwrap();
        assert!(z[1] == 0.0 && z[0] > 0.0 && z[2] > 0.0, "{z:?}");
        // Both outside are at their limit: 0.4 of the vector's length.
        assert!(
            (product(&u, rows[0]) - 0.4).abs() < 1e-9 && (product(&u, rows[2]) - 0.4).abs() < 1e-9
        );
    }
}

/// Expected work for three rows.
///
/// Three lengths and the vector's own, six products of pairs and three with the vector, three additions.
#[test]
fn what_a_program_of_three_rows_multiplies() {
    assert_eq!(Program::multiplications(3), 4 + 6 + 3 + 3);
    assert_eq!(Program::multiplications(1), 2 + 1 + 1 + 1);
}

proptest! {
    /// Card, invariant 2: feasible, idempotent, and as near as any other feasible vector.
    #[test]
    fn the_nearest_vector_of_a_cone(
        g in prop::collection::vec(-2f64..2.0, 7),
        rows in prop::collection::vec(-2f64..2.0, 7 * 5),
        copies in 0usize..3,
        others in prop::collection::vec(0f64..2.0, 5),
    ) {
        let mut rows = rows_of(&rows, 7);
        let again = rows[..copies].to_vec();
        rows.extend(again);
        let (u, z) = solved(&g, &rows, 0.0).unwrap();
        let size = |v: &[f64]| product(v, v).sqrt();
        for row in &rows {
            prop_assert!(product(row, &u) >= -1e-8 * size(row) * size(&g));
        }
        prop_assert!(z.iter().all(|z| *z >= 0.0));
        let again = solved(&u, &rows, 0.0).unwrap().0;
        prop_assert!(u.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-7));
        // A point of the cone: what is nearest makes an obtuse angle with the way to every other.
        let point = moved(&[0.0; 7], &rows[..5], &others);
        let inside = solved(&point, &rows, 0.0).unwrap().0;
        let way: Vec<f64> = inside.iter().zip(&u).map(|(a, b)| a - b).collect();
        let back: Vec<f64> = g.iter().zip(&u).map(|(a, b)| a - b).collect();
        prop_assert!(product(&way, &back) <= 1e-7 * size(&g).max(1.0) * size(&way).max(1.0));
    }
}
