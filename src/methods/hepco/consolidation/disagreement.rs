//! Distance of the teachers' weighted prompts from the server's, as a function of the query alone.
//!
//! While a generator trains, all pools are fixed: prompts of `length * d` numbers enter through their
//! inner products alone. With `c_w`, `c_i` the cosines of server and teacher and `D_i = P_w - P_i`,
//!
//! ```text
//! rho_w - rho_i = (c_w - c_i) P_w + c_i D_i = v [P_w; D_i],   v = [c_w - c_i, c_i]
//! |rho_w - rho_i|^2 = v G_i v^T,   G_i = [P_w; D_i] [P_w; D_i]^T
//! ```
//! so a step costs `(2 pool)^2` per query, block and teacher in place of `pool * length * d`. The form by
//! differences is exactly zero between equal models.

use candle_core::{Result, Tensor};

use super::models::{ConsolidationTeacher, Model};
use crate::learning::losses::closed_form;
use crate::model::ops;
use crate::model::ops::matrix::{Matrix, MatrixMut};
use crate::model::prompts::cosines;

/// Pools of the server and its teachers, by block, reduced to inner products.
pub struct Disagreement {
    blocks: Vec<DisagreementBlock>,
    pool: usize,
    /// Number of entries of a block's prompt, `length * d`.
    entries: usize,
}

struct DisagreementBlock {
    /// Keys of the server and of every teacher, `((1 + teachers) pool, d)`.
    keys: Tensor,
    /// `G_i`, `(2 pool, 2 pool)`, of every teacher.
    products: Vec<Vec<f32>>,
}

impl Disagreement {
    /// Creates the disagreement of a server and its teachers.
    ///
    /// # Errors
    /// When pools differ in shape.
    pub fn new(server: &Model, teachers: &[ConsolidationTeacher]) -> Result<Disagreement> {
        let block = |j: usize| -> Result<DisagreementBlock> {
            let keys: Vec<&Tensor> = [server]
                .into_iter()
                .chain(teachers.iter().map(|teacher| &teacher.model))
                .map(|model| &model.keys[j])
                .collect();
            let own = &server.prompts[j];
            let products = teachers.iter().map(|teacher| {
                let both = Tensor::cat(&[own, &(own - &teacher.model.prompts[j])?], 0)?;
                inner_products(&both)
            });
            Ok(DisagreementBlock {
                keys: Tensor::cat(&keys, 0)?,
                products: products.collect::<Result<_>>()?,
            })
        };
        let pool = server.keys.first().map_or(Ok(0), |keys| keys.dim(0))?;
        let entries = server.prompts.first().map_or(Ok(0), |prompts| prompts.dim(1))?;
        let blocks = (0..server.keys.len()).map(block).collect::<Result<_>>()?;
        Ok(Disagreement { blocks, pool, entries })
    }

    /// Returns the number of entries of a block's prompt.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the weighted distance `sum_b sum_i weights_i(b) sum_j |rho_w - rho_i|^2`, a scalar.
    ///
    /// Queries are `(b, d)`; `weights` holds a vector of `b` weights per teacher.
    ///
    /// # Errors
    /// When queries have another width.
    pub fn loss(&self, queries: &Tensor, weights: &[Vec<f32>]) -> Result<Tensor> {
        let mut total: Option<Tensor> = None;
        for DisagreementBlock { keys, products } in &self.blocks {
            let found = cosines(queries, keys)?;
            let loss = closed_form(&found, |c| quadratic(c, products, weights, self.pool))?;
            total = Some(match total {
                Some(total) => (total + loss)?,
                None => loss,
            });
        }
        match total {
            Some(total) => Ok(total),
            None => ops::sum_all(&queries.zeros_like()?),
        }
    }
}

/// Returns the Gram matrix `rows rows^T` of a block, row-major.
fn inner_products(rows: &Tensor) -> Result<Vec<f32>> {
    let (count, width) = rows.dims2()?;
    let values = rows.flatten_all()?.to_vec1::<f32>()?;
    let rows = Matrix::dense(&values, count, width);
    let mut products = vec![0.0; count * count];
    MatrixMut::dense(&mut products, count, count).set(1.0, rows, rows.t());
    Ok(products)
}

/// Returns value and gradient of `sum_b sum_i w_i(b) v G_i v^T` in cosines `(b, (1 + teachers) pool)`.
fn quadratic(
    cosines: &[f32],
    products: &[Vec<f32>],
    weights: &[Vec<f32>],
    pool: usize,
) -> (f64, Vec<f32>) {
    let width = (1 + products.len()) * pool;
    let rows = cosines.len() / width.max(1);
    let mut gradient = vec![0f32; cosines.len()];
    let mut total = 0.0;
    let (mut v, mut gv) = (vec![0f32; rows * 2 * pool], vec![0f32; rows * 2 * pool]);
    for (i, (products, weights)) in products.iter().zip(weights).enumerate() {
        let at = (i + 1) * pool;
        for (c, v) in cosines.chunks_exact(width).zip(v.chunks_exact_mut(2 * pool)) {
            let (apart, own) = v.split_at_mut(pool);
            own.copy_from_slice(&c[at..at + pool]);
            apart.iter_mut().zip(c).zip(&*own).for_each(|((apart, c), own)| *apart = c - own);
        }
        let vectors = Matrix::dense(&v, rows, 2 * pool);
        MatrixMut::dense(&mut gv, rows, 2 * pool).set(
            1.0,
            vectors,
            Matrix::dense(products, 2 * pool, 2 * pool),
        );
        let each = v.chunks_exact(2 * pool).zip(gv.chunks_exact(2 * pool));
        for (((v, gv), w), gradient) in each.zip(weights).zip(gradient.chunks_exact_mut(width)) {
            let square: f64 = v.iter().zip(gv).map(|(v, g)| f64::from(*v) * f64::from(*g)).sum();
            total += f64::from(*w) * square;
            let (by_apart, by_own) = gv.split_at(pool);
            for m in 0..pool {
                gradient[m] += 2.0 * w * by_apart[m];
                gradient[at + m] += 2.0 * w * (by_own[m] - by_apart[m]);
            }
        }
    }
    (total, gradient)
}
