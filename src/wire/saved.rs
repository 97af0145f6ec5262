//! Values that lie in a body between two rounds: states of clients, memories of servers.
//!
//! `#[derive(Saved)]` saves a struct field by field: numbers go to the meta, tensors to sections, both in the order of
//! the fields, which is thus part of the format.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};
use crate::quantity::TaskId;

/// Value that is saved in a body, in memory and in checkpoints.
pub trait Saved: Sized {
    /// Returns a body from which the value can be read.
    fn save(&self) -> Body;

    /// Reads the output of [`save`](Saved::save); the body may also hold sections of other values.
    ///
    /// # Errors
    /// Returns an error if the body was not written by `save`.
    fn load(saved: &Body) -> Result<Self, WireError>;
}

/// Part of a saved value, such as a field of a struct.
pub trait SavedField: Sized {
    /// Appends the part to a body.
    fn save_field(&self, into: &mut Saving);

    /// Reads the part, which follows the parts that were saved before it.
    ///
    /// # Errors
    /// Returns an error if the body was not written by [`save_field`](SavedField::save_field).
    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError>;
}

/// Body that is being written.
#[derive(Debug, Default)]
pub struct Saving {
    /// Numbers so far.
    pub meta: MetaWriter,
    /// Tensors so far.
    pub sections: Vec<Section>,
}

/// Body that is being read.
#[derive(Debug)]
pub struct Loading<'a> {
    /// Numbers that were not read yet.
    pub meta: MetaReader<'a>,
    /// The whole body.
    pub body: &'a Body,
}

impl Saving {
    /// Returns the last section if it is of this kind, else a new one.
    pub fn section(&mut self, kind: Kind) -> &mut Section {
        if self.sections.last().is_none_or(|last| last.kind != kind) {
            self.sections.push(Section::new(kind, Vec::new()));
        }
        self.sections.last_mut().expect("there is one now")
    }

    /// Appends a list of numbers as a tensor of shape `(values,)`.
    pub fn list(&mut self, kind: Kind, name: impl Into<Arc<str>>, values: impl Into<Arc<[u32]>>) {
        let values: Arc<[u32]> = values.into();
        let tensor = NamedTensor::u32(name, [values.len()], values);
        self.section(kind).tensors.push(tensor.expect("a list fills its length"));
    }

    /// Returns the body.
    pub fn finish(self) -> Body {
        Body::new(self.meta.finish(), self.sections)
    }
}

impl Loading<'_> {
    /// Returns a list that [`Saving::list`] wrote.
    ///
    /// # Errors
    /// Returns an error if no u32 tensor has this kind and name.
    pub fn list(&self, kind: Kind, name: &str) -> Result<Arc<[u32]>, WireError> {
        Ok(Arc::clone(self.body.tensor(kind, name)?.as_u32()?))
    }
}

impl<T: SavedField> Saved for T {
    fn save(&self) -> Body {
        let mut into = Saving::default();
        self.save_field(&mut into);
        into.finish()
    }

    fn load(saved: &Body) -> Result<T, WireError> {
        let mut from = Loading { meta: MetaReader::new(&saved.meta), body: saved };
        let value = T::load_field(&mut from)?;
        from.meta.finish()?;
        Ok(value)
    }
}

/// No state; all sections of a body are ignored.
impl Saved for () {
    fn save(&self) -> Body {
        Body::default()
    }

    fn load(_saved: &Body) -> Result<(), WireError> {
        Ok(())
    }
}

impl SavedField for u64 {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u64(*self);
    }

    fn load_field(from: &mut Loading<'_>) -> Result<u64, WireError> {
        from.meta.u64()
    }
}

impl SavedField for f64 {
    fn save_field(&self, into: &mut Saving) {
        into.meta.f64(*self);
    }

    fn load_field(from: &mut Loading<'_>) -> Result<f64, WireError> {
        from.meta.f64()
    }
}

/// The number of a task from 1; 0 for none.
impl SavedField for Option<TaskId> {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u64(self.map_or(0, |task| u64::from(task.0) + 1));
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Option<TaskId>, WireError> {
        let Some(task) = from.meta.u64()?.checked_sub(1) else { return Ok(None) };
        let task = u16::try_from(task);
        let task = task.map_err(|_| WireError::Malformed("there are not that many tasks".into()));
        Ok(Some(TaskId(task?)))
    }
}

impl SavedField for BTreeSet<u32> {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u32s(&self.iter().copied().collect::<Vec<_>>());
    }

    fn load_field(from: &mut Loading<'_>) -> Result<BTreeSet<u32>, WireError> {
        Ok(from.meta.u32s()?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, fedcast_derive::Saved)]
    struct Inner(Option<TaskId>, f64);

    #[derive(Debug, PartialEq, fedcast_derive::Saved)]
    struct Outer {
        bytes: u64,
        inner: Inner,
        rows: BTreeSet<u32>,
    }

    #[test]
    fn fields_are_saved_in_their_order() {
        let value = Outer { bytes: 300, inner: Inner(Some(TaskId(4)), 0.5), rows: [9, 2].into() };
        let saved = value.save();
        let mut meta = MetaWriter::new();
        meta.u64(300).u64(5).f64(0.5).u32s(&[2, 9]);
        assert_eq!((saved.meta.clone(), saved.sections.len()), (meta.finish(), 0));
        assert_eq!(Outer::load(&saved).unwrap(), value);
        let mut longer = saved.clone();
        longer.meta.push(0);
        assert!(Outer::load(&longer).is_err());
        let mut task_65_536 = MetaWriter::new();
        task_65_536.u64(300).u64(1 << 16 | 1).f64(0.5).u32s(&[2, 9]);
        let wrapped = Body { meta: task_65_536.finish(), ..saved };
        assert!(Outer::load(&wrapped).is_err(), "a task's number does not wrap around");
    }

    #[test]
    fn tensors_of_one_kind_share_a_section() {
        let mut into = Saving::default();
        into.section(Kind::Exemplars);
        into.list(Kind::Exemplars, "a", [7, 8]);
        into.list(Kind::Settings, "b", [1]);
        let kinds: Vec<Kind> = into.sections.iter().map(|section| section.kind).collect();
        assert_eq!(kinds, [Kind::Exemplars, Kind::Settings]);
        let body = Body::new(Vec::new(), into.sections);
        let from = Loading { meta: MetaReader::new(&[]), body: &body };
        assert_eq!(&from.list(Kind::Exemplars, "a").unwrap()[..], [7, 8]);
        assert!(from.list(Kind::Exemplars, "b").is_err());
    }
}
