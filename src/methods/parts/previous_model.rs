//! The model of the previous task's end, for methods that distill from it or are held near it.

use crate::policy::Role;

/// Model of the previous task's end, which clients are sent once per task, as an asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreviousModel {
    /// Role of the clients that are sent it; all if none.
    pub role: Option<Role>,
    /// True if every task but the first starts from newly drawn parameters instead of the previous ones.
    pub reinitializes: bool,
}

impl PreviousModel {
    /// Returns true if clients of this role are sent the model.
    pub fn is_sent_to(&self, role: Role) -> bool {
        self.role.is_none_or(|only| only == role)
    }
}
