//! Mixture of Gaussians from which the server draws features: HGP's hierarchical generative prototypes.
//!
//! The server keeps one Gaussian per class and client, and draws at two levels:
//!
//! ```text
//! class c ~ Categorical(omega)      client m ~ Categorical(n_{m,c} / sum_m n_{m,c})
//! h = mu_{m,c} + sqrt(scale * var_{m,c}) * eps,   eps ~ N(0, I)
//! ```
//! Both draws take constant time for any number of clients, by Walker's alias tables.

use std::ops::Range;

use rand::RngCore;

use super::Prototypes;
use crate::numerics::alias::AliasTable;
use crate::numerics::gaussian::{GaussianError, Sampler};
use crate::quantity::ClientId;

/// Constant added to every variance before drawing, as in the public code.
pub const ADDED: f64 = 1e-8;

/// Distribution of features over classes and clients, without classes that have no Gaussian.
pub struct Mixture {
    classes: Vec<MixtureClass>,
    pick: AliasTable,
    dim: usize,
}

struct MixtureClass {
    row: u32,
    clients: Vec<(ClientId, Sampler)>,
    pick: AliasTable,
}

impl Mixture {
    /// Returns the mixture of the classes in `rows`, or `None` if none of them has a Gaussian.
    ///
    /// A class is drawn in proportion to `omega(row)`, and covariances are multiplied by `scale`.
    ///
    /// # Errors
    /// When a Gaussian is not finite, or a full one is not positive definite.
    pub fn new(
        prototypes: &Prototypes,
        rows: Range<u32>,
        omega: impl Fn(u32) -> f64,
        scale: f64,
    ) -> Result<Option<Mixture>, GaussianError> {
        let mut classes = Vec::new();
        for (row, cells) in prototypes.of(rows) {
            let weights: Vec<f64> = cells.values().map(|cell| cell.gaussian.count()).collect();
            let clients = cells
                .iter()
                .map(|(client, cell)| Ok((*client, cell.gaussian.sampler(scale, ADDED)?)))
                .collect::<Result<Vec<_>, GaussianError>>()?;
            let Some(pick) = AliasTable::new(&weights) else { continue };
            classes.push(MixtureClass { row, clients, pick });
        }
        let weights: Vec<f64> = classes.iter().map(|class| omega(class.row)).collect();
        let dim = classes.first().and_then(|class| class.clients.first()).map(|c| c.1.dim());
        let (Some(pick), Some(dim)) = (AliasTable::new(&weights), dim) else { return Ok(None) };
        Ok(Some(Mixture { classes, pick, dim }))
    }

    /// Returns the number of classes that can be drawn.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Fills `features`, `(n, dim)` row-major, with draws, and `rows`, `(n)`, with their head rows.
    pub fn draw(&self, rng: &mut impl RngCore, features: &mut [f32], rows: &mut [u32]) {
        let mut scratch = Vec::with_capacity(self.dim + 1);
        for (feature, row) in features.chunks_exact_mut(self.dim).zip(rows) {
            let class = &self.classes[self.pick.sample(rng)];
            let (_, sampler) = &class.clients[class.pick.sample(rng)];
            sampler.draw(rng, &mut scratch, feature);
            *row = class.row;
        }
    }

    /// Returns the probability of each class (head row) and client, as the alias tables draw them.
    pub fn probabilities(&self) -> Vec<(u32, ClientId, f64)> {
        let per_class = self.classes.iter().zip(self.pick.probabilities());
        per_class
            .flat_map(|(class, of_class)| {
                let clients = class.clients.iter().zip(class.pick.probabilities());
                clients
                    .map(move |((client, _), of_client)| (class.row, *client, of_class * of_client))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::golden::Golden;
    use crate::methods::class_statistics::{ClassGaussian, ClassStatistics};
    use crate::numerics::gaussian::DiagonalGaussian;
    use crate::numerics::streams::{Domain, StreamKey};

    type Arrived = Vec<(ClientId, Vec<Arc<ClassStatistics>>)>;

    fn cell(row: u32, count: u64, mean: &[f64], variance: &[f64]) -> Arc<ClassStatistics> {
        let (mean, variance) = (mean.to_vec(), variance.to_vec());
        let gaussian = ClassGaussian::Diagonal(DiagonalGaussian { count, mean, variance });
        Arc::new(ClassStatistics { row, gaussian })
    }

    fn store(arrived: &Arrived) -> Prototypes {
        let mut prototypes = Prototypes::default();
        prototypes.update(arrived, true);
        prototypes
    }

    fn three_clients() -> Arrived {
        vec![
            (ClientId(0), vec![cell(0, 30, &[0.0, 1.0], &[1.0, 4.0])]),
            (
                ClientId(1),
                vec![cell(0, 10, &[2.0, 1.0], &[1.0, 0.0]), cell(2, 7, &[5.0, 5.0], &[0.5, 0.5])],
            ),
            (ClientId(4), vec![cell(2, 21, &[-5.0, 5.0], &[0.1, 0.1])]),
        ]
    }

    fn probabilities(arrived: &Arrived) -> Vec<(u32, ClientId, f64)> {
        Mixture::new(&store(arrived), 0..9, |_| 1.0, 3.0).unwrap().unwrap().probabilities()
    }

    #[test]
    fn two_levels_are_one_categorical() {
        let got = probabilities(&three_clients());
        let want = [
            (0, ClientId(0), 0.5 * 0.75),
            (0, ClientId(1), 0.5 * 0.25),
            (2, ClientId(1), 0.5 * 0.25),
            (2, ClientId(4), 0.5 * 0.75),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_order_of_clients_is_irrelevant_and_splitting_one_changes_nothing() {
        let mut reversed = three_clients();
        reversed.reverse();
        assert_eq!(probabilities(&reversed), probabilities(&three_clients()));

        let whole = vec![(ClientId(0), vec![cell(0, 30, &[0.0], &[1.0])])];
        let halves = vec![
            (ClientId(0), vec![cell(0, 10, &[0.0], &[1.0])]),
            (ClientId(1), vec![cell(0, 20, &[0.0], &[1.0])]),
        ];
        let (whole, halves) = (probabilities(&whole), probabilities(&halves));
        assert_eq!(whole[0].2, halves.iter().map(|cell| cell.2).sum::<f64>());
    }

    #[test]
    fn moments_of_a_class_are_those_of_its_mixture() {
        let scale = 3.0;
        let mixture =
            Mixture::new(&store(&three_clients()), 0..1, |_| 1.0, scale).unwrap().unwrap();
        let n = 200_000;
        let (mut drawn, mut rows) = (vec![0.0; 2 * n], vec![9; n]);
        mixture.draw(&mut StreamKey::new(1, Domain::Rebalance).rng(), &mut drawn, &mut rows);
        assert!(rows.iter().all(|row| *row == 0));
        for (axis, (mu, var)) in
            [([0.0, 2.0], [1.0, 1.0]), ([1.0, 1.0], [4.0, 0.0])].into_iter().enumerate()
        {
            let pi = [0.75, 0.25];
            let mean = pi[0] * mu[0] + pi[1] * mu[1];
            let second: f64 = (0..2).map(|m| pi[m] * (scale * var[m] + mu[m] * mu[m])).sum();
            let values = || drawn.chunks(2).map(|h| f64::from(h[axis]));
            let got = values().sum::<f64>() / n as f64;
            let got_var = values().map(|v| (v - got) * (v - got)).sum::<f64>() / n as f64;
            assert!((got - mean).abs() < 0.03, "axis {axis}: mean {got}, should be {mean}");
            let want = second - mean * mean;
            assert!((got_var - want).abs() < 0.15, "axis {axis}: variance {got_var}, not {want}");
        }
    }

    #[test]
    fn a_new_round_replaces_what_is_described_again() {
        let mut prototypes = store(&three_clients());
        let news = vec![(ClientId(9), vec![cell(0, 5, &[1.0, 1.0], &[0.0, 0.0])])];
        let mut kept = prototypes.clone();
        prototypes.update(&news, true);
        assert_eq!(prototypes.totals(0..9), BTreeMap::from([(0, 5.0), (2, 28.0)]));
        kept.update(&news, false);
        assert_eq!(kept.totals(0..9), BTreeMap::from([(0, 45.0), (2, 28.0)]));
        assert_eq!((prototypes.len(), kept.len()), (3, 5));
    }

    #[test]
    fn nothing_to_draw_from_is_no_mixture() {
        assert!(Mixture::new(&Prototypes::default(), 0..9, |_| 1.0, 3.0).unwrap().is_none());
        assert!(Mixture::new(&store(&three_clients()), 3..9, |_| 1.0, 3.0).unwrap().is_none());
    }

    #[test]
    fn golden_mixture_weights() {
        let Some(golden) = Golden::open("statistics") else { return };
        let (counts, means, vars) =
            (golden.i64("hgp.count"), golden.f64("hgp.mean"), golden.f64("hgp.var"));
        let (clients, classes) = (golden.shape("hgp.count")[0], golden.shape("hgp.count")[1]);
        let dim = golden.shape("hgp.mean")[2];
        let arrived: Arrived = (0..clients)
            .map(|m| {
                let own = (0..classes).filter(|c| counts[m * classes + c] >= 2).map(|c| {
                    let at = m * classes + c;
                    let here = at * dim..(at + 1) * dim;
                    cell(c as u32, counts[at] as u64, &means[here.clone()], &vars[here])
                });
                (ClientId(m as u32), own.collect())
            })
            .collect();
        let prototypes = store(&arrived);
        let total: i64 = counts.iter().sum();
        let share = |row: u32| {
            let of_class = (0..clients).map(|m| counts[m * classes + row as usize]).sum::<i64>();
            of_class as f64 / total as f64
        };
        let omegas: [(&str, &dyn Fn(u32) -> f64); 2] =
            [("hgp.cell_uniform", &|_| 1.0), ("hgp.cell_share", &share)];
        for (name, omega) in omegas {
            let mixture =
                Mixture::new(&prototypes, 0..classes as u32, omega, 3.0).unwrap().unwrap();
            let mut cells = vec![0.0; clients * classes];
            for (row, client, p) in mixture.probabilities() {
                cells[client.index() * classes + row as usize] = p;
            }
            golden.assert_close(name, &cells);
        }
    }
}
