//! Embeddings of class names, the anchors of features: from a file, or orthogonal.

use std::path::Path;

use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::{Domain, StreamKey};

/// Value of `embeddings` for drawn orthogonal rows.
pub(super) const ORTHOGONAL: &str = "orthogonal";

/// Table of label embeddings, with a row per class of the data set.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelEmbeddings {
    width: usize,
    values: Vec<f32>,
}

impl LabelEmbeddings {
    /// Returns orthogonal rows of length `norm`, the same in every run.
    ///
    /// # Errors
    /// When there are more classes than dimensions (`width`).
    pub fn orthogonal(classes: usize, width: usize, norm: f64) -> Result<LabelEmbeddings, String> {
        if classes > width {
            return Err(format!("{classes} rows of width {width} cannot be orthogonal"));
        }
        let key = |class: usize| {
            StreamKey::new(0, Domain::Method).named(&format!("label embedding {class}"))
        };
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(classes);
        for class in 0..classes {
            let mut drawn = vec![0f32; width];
            fill_normal(&mut key(class).rng(), &mut drawn);
            let mut row: Vec<f64> = drawn.into_iter().map(f64::from).collect();
            // Two passes: one leaves a residual from rounding.
            for known in rows.iter().chain(&rows) {
                let along: f64 = known.iter().zip(&row).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(known).for_each(|(value, known)| *value -= along * known);
            }
            let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            row.iter_mut().for_each(|value| *value /= length);
            rows.push(row);
        }
        let values = rows.into_iter().flatten().map(|value| (value * norm) as f32).collect();
        Ok(LabelEmbeddings { width, values })
    }

    /// Reads the rows of a file: safetensors with one matrix, or else CSV.
    ///
    /// # Errors
    /// When the file cannot be read, a number is not finite, or the shape is another.
    pub fn read(path: &Path, classes: usize, width: usize) -> Result<LabelEmbeddings, String> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
        let is_tensor = path.extension().is_some_and(|ending| ending == "safetensors");
        let (shape, values) = match is_tensor {
            true => matrix_in(&bytes),
            false => rows_in(&bytes),
        }
        .map_err(|problem| format!("{shown}: {problem}"))?;
        if shape != [classes, width] {
            let [rows, columns] = shape;
            return Err(format!(
                "{shown}: {rows} rows of width {columns}, expected {classes} of width {width}"
            ));
        }
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(LabelEmbeddings { width, values }),
            false => Err(format!("{shown}: a number is not finite")),
        }
    }

    /// Returns the width of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the row of a class of the data set.
    pub fn of(&self, class: u32) -> &[f32] {
        &self.values[class as usize * self.width..][..self.width]
    }
}

/// Returns shape and values of the only matrix in a safetensors file.
fn matrix_in(bytes: &[u8]) -> Result<([usize; 2], Vec<f32>), String> {
    use candle_core::safetensors::Load;
    let file = safetensors::SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let tensors = file.tensors();
    let [(name, view)] = &tensors[..] else {
        return Err(format!("{} tensors, expected one", tensors.len()));
    };
    let &[rows, columns] = view.shape() else {
        return Err(format!("`{name}` has shape {:?}, expected a matrix", view.shape()));
    };
    let read = || -> candle_core::Result<Vec<f32>> {
        let tensor = view.load(&candle_core::Device::Cpu)?;
        tensor.to_dtype(candle_core::DType::F32)?.flatten_all()?.to_vec1()
    };
    Ok(([rows, columns], read().map_err(|error| error.to_string())?))
}

/// Returns shape and values of the lines of a CSV file.
fn rows_in(bytes: &[u8]) -> Result<([usize; 2], Vec<f32>), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (mut columns, mut rows, mut values) = (0, 0, Vec::new());
    for (line, row) in (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty()) {
        let before = values.len();
        for number in row.split(',') {
            let parsed = number.trim().parse::<f32>();
            values.push(parsed.map_err(|_| format!("line {line}: `{number}` is no number"))?);
        }
        let width = values.len() - before;
        if rows > 0 && width != columns {
            return Err(format!("line {line}: {width} numbers, expected {columns}"));
        }
        (columns, rows) = (width, rows + 1);
    }
    Ok(([rows, columns], values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthogonal_rows_are_orthogonal_and_fixed() {
        let table = LabelEmbeddings::orthogonal(12, 16, 10.0).unwrap();
        let dot = |a, b| -> f32 { table.of(a).iter().zip(table.of(b)).map(|(a, b)| a * b).sum() };
        for a in 0..12 {
            for b in 0..12 {
                let wanted = if a == b { 100.0 } else { 0.0 };
                assert!((dot(a, b) - wanted).abs() < 1e-4, "{a} {b}");
            }
        }
        // Fewer classes have the same first rows.
        let fewer = LabelEmbeddings::orthogonal(3, 16, 10.0).unwrap();
        assert_eq!(fewer.of(2), table.of(2));
        assert_eq!(table.width(), 16);
        assert!(LabelEmbeddings::orthogonal(17, 16, 10.0).is_err());
    }

    #[test]
    fn files_are_read_and_misfits_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let read = |path: &Path| LabelEmbeddings::read(path, 2, 3);
        let csv = write("a.csv", b"1, 2,3\n\n-4,5e-1,6\n");
        let table = read(&csv).unwrap();
        assert_eq!((table.of(0), table.of(1)), (&[1.0, 2.0, 3.0][..], &[-4.0, 0.5, 6.0][..]));
        let problem = |name: &str, bytes: &[u8]| read(&write(name, bytes)).unwrap_err();
        assert!(problem("b.csv", b"1,2,3\n4,5\n").contains("line 2: 2 numbers, expected 3"));
        assert!(problem("c.csv", b"1,2,x\n4,5,6\n").contains("`x` is no number"));
        assert!(problem("d.csv", b"1,2,3\n").contains("1 rows of width 3, expected 2"));
        assert!(problem("e.csv", b"1,2,inf\n4,5,6\n").contains("not finite"));
        assert!(read(&folder.path().join("none.csv")).unwrap_err().contains("none.csv"));
        let halves: Vec<u8> = [1.0f32, 2.0, 3.0, -4.0, 0.5, 6.0]
            .iter()
            .flat_map(|v| half::f16::from_f32(*v).to_le_bytes())
            .collect();
        let view = |shape: Vec<usize>| {
            safetensors::tensor::TensorView::new(safetensors::Dtype::F16, shape, &halves).unwrap()
        };
        let file = |shape| safetensors::serialize([("text", view(shape))], None).unwrap();
        let path = write("a.safetensors", &file(vec![2, 3]));
        assert_eq!(read(&path).unwrap(), table);
        assert!(problem("b.safetensors", &file(vec![6])).contains("expected a matrix"));
        let two = [("a", view(vec![2, 3])), ("b", view(vec![2, 3]))];
        let two = safetensors::serialize(two, None).unwrap();
        assert!(problem("c.safetensors", &two).contains("2 tensors"));
        assert!(!problem("d.safetensors", b"nonsense").is_empty());
    }
}
