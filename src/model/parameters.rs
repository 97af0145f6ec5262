//! Named parameters outside of networks: the content of messages, checkpoints and digests.
//!
//! A `Var` shares its storage with every clone, so that clones are no snapshots. So only a [`ParameterSet`], a copy
//! behind an `Arc`, leaves the code that trains.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, Device, Storage, Tensor, Var};

use super::ModelError;

/// Variables in training, sorted by name.
pub type Variables = Vec<(Arc<str>, Var)>;

/// Shape and row-major values of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Row-major values, shared and never changed.
    pub values: Arc<[f32]>,
}

impl Parameter {
    /// Copies a tensor from any device, as f32.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn of(tensor: &Tensor) -> Result<Parameter, ModelError> {
        let flat = tensor.to_dtype(candle_core::DType::F32)?.flatten_all()?;
        let (storage, layout) = flat.storage_and_layout();
        let values = match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(values)), Some((from, to))) => values[from..to].into(),
            _ => flat.to_vec1::<f32>()?.into(),
        };
        Ok(Parameter { shape: tensor.dims().to_vec(), values })
    }

    /// Returns a variable that starts with these values.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn variable(&self, device: &Device) -> Result<Var, ModelError> {
        Ok(Var::from_slice(&self.values, self.shape.as_slice(), device)?)
    }

    /// Returns a constant tensor with these values.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn tensor(&self, device: &Device) -> Result<Tensor, ModelError> {
        Ok(Tensor::from_slice(&self.values, self.shape.as_slice(), device)?)
    }
}

impl Parameter {
    /// Returns the number of values per row along the first axis. A scalar is one row of one value.
    pub fn width(&self) -> usize {
        self.shape.get(1..).unwrap_or_default().iter().product()
    }

    /// Returns the number of rows along the first axis.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns some rows. All rows together are shared, not copied.
    ///
    /// # Errors
    /// Returns an error if it has fewer rows, or is a scalar.
    pub fn cut(&self, rows: Range<usize>) -> Result<Parameter, ModelError> {
        let count = self.shape.first().copied().unwrap_or(0);
        if rows.end > count || rows.start > rows.end {
            let reason = format!("rows {rows:?} of {count} are asked for");
            return Err(ModelError::Input { reason });
        }
        if rows == (0..count) {
            return Ok(self.clone());
        }
        let mut shape = self.shape.clone();
        shape[0] = rows.len();
        let width = self.width();
        Ok(Parameter { shape, values: self.values[rows.start * width..rows.end * width].into() })
    }

    /// Returns a copy with the rows from `first` on replaced by those of `part`.
    ///
    /// # Errors
    /// Returns an error if they do not fit.
    pub fn with_rows(&self, part: &Parameter, first: usize) -> Result<Parameter, ModelError> {
        if self.shape == part.shape && first == 0 {
            return Ok(part.clone());
        }
        let (rows, width) = (first..first + part.rows(), self.width());
        if self.shape.get(1..) != part.shape.get(1..) || rows.end > self.rows() {
            let (whole, shape) = (&self.shape, &part.shape);
            let reason = format!("rows {rows:?} of the shape {shape:?} do not fit into {whole:?}");
            return Err(ModelError::Input { reason });
        }
        let mut values: Arc<[f32]> = Arc::from(&self.values[..]);
        let own = Arc::make_mut(&mut values);
        own[rows.start * width..rows.end * width].copy_from_slice(&part.values);
        Ok(Parameter { shape: self.shape.clone(), values })
    }

    /// Returns a copy with `rows` rows of zeros in front.
    pub fn behind_zeros(&self, rows: usize) -> Parameter {
        if rows == 0 {
            return self.clone();
        }
        let mut shape = self.shape.clone();
        shape[0] += rows;
        let zeros = std::iter::repeat_n(0.0, rows * self.width());
        Parameter { shape, values: zeros.chain(self.values.iter().copied()).collect() }
    }
}

/// Parameters by name, in sorted order. Clones share the values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParameterSet {
    parameters: BTreeMap<Arc<str>, Parameter>,
}

impl ParameterSet {
    /// Returns the empty set.
    pub fn new() -> ParameterSet {
        ParameterSet::default()
    }

    /// Stacks sets of the same names and shapes to one, the form in which a pack trains.
    ///
    /// The values of each parameter are concatenated along a new leading axis. A single set stays as it is.
    ///
    /// # Errors
    /// Returns an error if there is no set, or names or shapes differ.
    pub fn stacked(sets: &[ParameterSet]) -> Result<ParameterSet, ModelError> {
        let differ = || ModelError::Input {
            reason: "the members of a pack have parameters of different names or shapes".to_owned(),
        };
        let (first, others) = sets.split_first().ok_or_else(differ)?;
        if others.is_empty() {
            return Ok(first.clone());
        }
        let mut stack = ParameterSet::new();
        for (name, parameter) in first.iter() {
            let mut values = parameter.values.to_vec();
            for other in others {
                let found = other.get(name).filter(|found| found.shape == parameter.shape);
                values.extend_from_slice(&found.ok_or_else(differ)?.values);
            }
            let shape = [&[sets.len()], parameter.shape.as_slice()].concat();
            stack.insert(Arc::clone(name), Parameter { shape, values: values.into() });
        }
        match others.iter().all(|other| other.len() == first.len()) {
            true => Ok(stack),
            false => Err(differ()),
        }
    }

    /// Returns the parameters whose names `keep` accepts.
    pub fn filter(&self, keep: impl Fn(&str) -> bool) -> ParameterSet {
        let kept = self.iter().filter(|(name, _)| keep(name));
        kept.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
    }

    /// Copies the current values of variables (or of any named tensors).
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn snapshot<N, T>(variables: &[(N, T)]) -> Result<ParameterSet, ModelError>
    where
        N: AsRef<str>,
        T: std::ops::Deref<Target = Tensor>,
    {
        let mut set = ParameterSet::new();
        for (name, variable) in variables {
            set.insert(name.as_ref(), Parameter::of(variable)?);
        }
        Ok(set)
    }

    /// Returns the union of both sets. If both have a parameter, `other`'s is used.
    pub fn merge(mut self, other: &ParameterSet) -> ParameterSet {
        other.iter().for_each(|(name, parameter)| self.insert(Arc::clone(name), parameter.clone()));
        self
    }

    /// Applies `f` elementwise to both sets, in the shapes of this one. Values that the other lacks do not change.
    pub fn zipped(&self, other: &ParameterSet, f: impl Fn(f32, f32) -> f32) -> ParameterSet {
        let one = |(name, own): (&Arc<str>, &Parameter)| {
            let zipped = match other.get(name).filter(|other| other.shape == own.shape) {
                Some(other) => {
                    let pairs = own.values.iter().zip(other.values.iter());
                    let values = pairs.map(|(own, other)| f(*own, *other)).collect();
                    Parameter { shape: own.shape.clone(), values }
                }
                None => own.clone(),
            };
            (Arc::clone(name), zipped)
        };
        self.iter().map(one).collect()
    }

    /// Returns the Euclidean norm of all values together.
    pub fn norm(&self) -> f64 {
        let all = self.parameters.values().flat_map(|parameter| parameter.values.iter());
        all.map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt()
    }

    /// Adds or replaces a parameter.
    ///
    /// # Panics
    /// Panics if the number of values is not that of the shape.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, parameter: Parameter) {
        assert_eq!(parameter.values.len(), parameter.shape.iter().product::<usize>());
        self.parameters.insert(name.into(), parameter);
    }

    /// Returns the parameter of that name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters.get(name)
    }

    /// Returns all parameters in sorted order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Parameter)> {
        self.parameters.iter()
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// Returns true if there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Returns the number of values in all tensors together.
    pub fn flat_length(&self) -> usize {
        self.parameters.values().map(|p| p.values.len()).sum()
    }

    /// Returns the size of the values in bytes, as f32.
    pub fn bytes(&self) -> u64 {
        4 * self.flat_length() as u64
    }

    /// Returns the blake3 digest of sorted names, shapes and the bits of the values.
    ///
    /// It is equal exactly if the sets are equal bit by bit, so `0.0` and `-0.0` differ.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for (name, parameter) in &self.parameters {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
            hasher.update(&(parameter.shape.len() as u64).to_le_bytes());
            for extent in &parameter.shape {
                hasher.update(&(*extent as u64).to_le_bytes());
            }
            for chunk in parameter.values.chunks(4096) {
                let bytes: Vec<u8> = chunk.iter().flat_map(|v| v.to_le_bytes()).collect();
                hasher.update(&bytes);
            }
        }
        hasher.finalize()
    }

    /// Returns new variables with these values, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn variables(&self, device: &Device) -> Result<Variables, ModelError> {
        self.iter().map(|(name, p)| Ok((name.clone(), p.variable(device)?))).collect()
    }

    /// Returns the parameter of this name and shape.
    ///
    /// # Errors
    /// Returns an error if it is missing or has another shape; `file` names the origin of the set.
    pub(super) fn expect(
        &self,
        file: &str,
        name: &str,
        shape: &[usize],
    ) -> Result<&Parameter, ModelError> {
        let Some(parameter) = self.get(name) else {
            return Err(ModelError::Missing {
                file: file.to_owned(),
                name: name.to_owned(),
                expected: Some(shape.to_vec()),
                advice: "the network needs every parameter of its configuration, by the names of \
                         timm (vit), torchvision (resnet18, resnet50, resnet152) or Hugging Face (bert)",
            });
        };
        if parameter.shape != shape {
            return Err(ModelError::Shape {
                file: file.to_owned(),
                name: name.to_owned(),
                found: parameter.shape.clone(),
                expected: shape.to_vec(),
                advice: "use weights of the network the scenario names, or leave out its sizes \
                         so that they are read from the file",
            });
        }
        Ok(parameter)
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Parameter)> for ParameterSet {
    fn from_iter<I: IntoIterator<Item = (N, Parameter)>>(parameters: I) -> ParameterSet {
        let mut set = ParameterSet::new();
        for (name, parameter) in parameters {
            set.insert(name, parameter);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[f32]) -> ParameterSet {
        let parameter = Parameter { shape: vec![values.len()], values: values.into() };
        [("b", parameter.clone()), ("a", parameter)].into_iter().collect()
    }

    #[test]
    fn a_snapshot_does_not_follow_the_variable() -> Result<(), ModelError> {
        let variables = set(&[1.0, 2.0]).variables(&Device::Cpu)?;
        let before = ParameterSet::snapshot(&variables)?;
        for (_, variable) in &variables {
            variable.set(&Tensor::new(&[5.0f32, 6.0], &Device::Cpu)?)?;
        }
        assert_eq!(before, set(&[1.0, 2.0]));
        assert_eq!(ParameterSet::snapshot(&variables)?, set(&[5.0, 6.0]));
        assert_eq!(variables.iter().map(|(n, _)| &**n).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((before.flat_length(), before.bytes()), (4, 16));
        Ok(())
    }

    #[test]
    fn stacked_sets_lie_one_behind_the_other() -> Result<(), ModelError> {
        let (one, other) = (set(&[1.0, 2.0]), set(&[3.0, 4.0]));
        assert_eq!(ParameterSet::stacked(std::slice::from_ref(&one))?, one);
        let stack = ParameterSet::stacked(&[one.clone(), other])?;
        let a = stack.get("a").expect("as in each");
        assert_eq!((a.shape.as_slice(), &*a.values), (&[2, 2][..], &[1.0, 2.0, 3.0, 4.0][..]));
        for unlike in [set(&[1.0]), ParameterSet::new()] {
            assert!(ParameterSet::stacked(&[one.clone(), unlike.clone()]).is_err());
            assert!(ParameterSet::stacked(&[unlike, one.clone()]).is_err());
        }
        assert!(ParameterSet::stacked(&[]).is_err());
        Ok(())
    }

    #[test]
    fn the_digest_covers_names_shapes_and_bits() {
        let base = set(&[0.0, 2.0]);
        assert_eq!(base.digest(), set(&[0.0, 2.0]).digest());
        let mut reshaped = base.clone();
        reshaped.insert("a", Parameter { shape: vec![1, 2], values: [0.0, 2.0].into() });
        let mut renamed = set(&[0.0, 2.0]);
        renamed.insert("c", Parameter { shape: vec![0], values: [].into() });
        for other in [set(&[-0.0, 2.0]), reshaped, renamed] {
            assert_ne!(base.digest(), other.digest());
        }
    }

    #[test]
    fn a_missing_parameter_is_named() {
        let error = ParameterSet::new().expect("file", "a", &[1]).unwrap_err().to_string();
        assert!(error.contains("`a`"), "{error}");
    }
}
