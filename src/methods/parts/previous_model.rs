//! Model of the end of the previous task, for methods that distill from it or regularize towards it.

use crate::policy::Role;

/// Model of the end of the previous task, which clients get once per task, as an asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreviousModel {
    /// Role of the clients that get it; `None`: all.
    pub role: Option<Role>,
    /// True if every task but the first starts from newly drawn parameters instead of the previous ones.
    pub reinitializes: bool,
}

impl PreviousModel {
    /// Returns true if clients of this role get the model.
    pub fn is_sent_to(&self, role: Role) -> bool {
        self.role.is_none_or(|only| only == role)
    }
}
