//! Parameters that a method trains: names, shapes, and owners of their rows.

use crate::model::{HeadKind, HeadShape};

/// Owner of the rows of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Shared by all clients.
    Shared,
    /// Tasks': a client of a task changes its own alone.
    Task,
    /// Classes': rows of the head.
    Class,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AveragedParameter {
    /// Name, such as `head.weight`.
    pub name: String,
    /// Its extents, with all rows.
    pub shape: Vec<usize>,
    /// Owner of its rows.
    pub rows: Rows,
}

/// All parameters of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    all: Vec<AveragedParameter>,
    by_owner: bool,
}

impl Parameters {
    /// Returns the parameters that all tasks and clients share.
    pub fn shared(shapes: impl IntoIterator<Item = (String, Vec<usize>)>) -> Parameters {
        Parameters::default().with(shapes, Rows::Shared)
    }

    /// Returns the parameters with some more, whose rows belong to tasks.
    pub fn by_task(self, shapes: impl IntoIterator<Item = (String, Vec<usize>)>) -> Parameters {
        self.with(shapes, Rows::Task)
    }

    /// Returns the parameters with a head of this number of rows over features of this width.
    pub fn head(self, kind: HeadKind, rows: usize, dim: usize) -> Parameters {
        let by_row = kind.by_row();
        let mut all = self;
        for (name, shape) in (HeadShape { kind, rows, dim }).shapes() {
            let rows = if by_row.contains(&name.as_str()) { Rows::Class } else { Rows::Shared };
            all = all.with([(name, shape)], rows);
        }
        all
    }

    /// Returns the parameters whose names satisfy `keep`.
    pub fn filter(mut self, keep: impl Fn(&str) -> bool) -> Parameters {
        self.all.retain(|parameter| keep(&parameter.name));
        self
    }

    /// Returns the parameters with task and class rows averaged over the clients that trained them. By default rows are
    /// averaged over all clients.
    pub fn averaged_by_owner(self) -> Parameters {
        Parameters { by_owner: true, ..self }
    }

    fn with(
        mut self,
        shapes: impl IntoIterator<Item = (String, Vec<usize>)>,
        rows: Rows,
    ) -> Parameters {
        let parameter = |(name, shape)| AveragedParameter { name, shape, rows };
        self.all.extend(shapes.into_iter().map(parameter));
        self
    }

    /// Returns an iterator over the parameters.
    pub fn iter(&self) -> impl Iterator<Item = &AveragedParameter> {
        self.all.iter()
    }

    /// Returns how many numbers they are, of all rows.
    pub fn numbers(&self) -> usize {
        self.iter().map(|one| one.shape.iter().product::<usize>()).sum()
    }

    /// Returns true if rows of tasks and classes are averaged over the clients that trained them.
    pub fn is_by_owner(&self) -> bool {
        self.by_owner
    }
}
