//! Parameters that a method trains: names, shapes, and owners of their rows.

use crate::model::{HeadKind, HeadShape};

/// Entity to which the rows of a parameter belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All clients and tasks together.
    Shared,
    /// Tasks: a client of a task changes only the rows of this task.
    Task,
    /// Classes: rows of the head.
    Class,
}

/// Trained parameter that the server averages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AveragedParameter {
    /// Name, such as `head.weight`.
    pub name: String,
    /// Shape with all rows, also those of later tasks and classes.
    pub shape: Vec<usize>,
    /// Owner of the rows.
    pub rows: Rows,
}

/// All parameters of a method, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    all: Vec<AveragedParameter>,
    by_owner: bool,
}

impl Parameters {
    /// Creates parameters that all tasks and clients share.
    pub fn shared(shapes: impl IntoIterator<Item = (String, Vec<usize>)>) -> Parameters {
        Parameters::default().with(shapes, Rows::Shared)
    }

    /// Returns these parameters and further ones, whose rows belong to tasks.
    pub fn by_task(self, shapes: impl IntoIterator<Item = (String, Vec<usize>)>) -> Parameters {
        self.with(shapes, Rows::Task)
    }

    /// Returns these parameters and those of a head with `rows` rows over features of width `dim`.
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

    /// Returns the parameters with task and class rows averaged over the clients that trained them.
    ///
    /// By default all rows are averaged over all clients.
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

    /// Returns the number of scalars in all parameters, with all their rows.
    pub fn numbers(&self) -> usize {
        self.iter().map(|one| one.shape.iter().product::<usize>()).sum()
    }

    /// Returns true if rows of tasks and classes are averaged over the clients that trained them.
    pub fn is_by_owner(&self) -> bool {
        self.by_owner
    }
}
