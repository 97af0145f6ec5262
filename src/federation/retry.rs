//! A pack that finds the memory of its device full is tried again in halves, down to one member.

/// Error of a full memory, as the device reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Full(pub String);

/// Gives `members` to `attempt`, and if the memory is full each half of them, and so on.
///
/// `attempt` returns a result for each of its members, and leaves them unchanged if it returns `Full`. The results are
/// in order; `Full` is that of a member that does not fit alone.
pub(super) fn in_halves<T, R>(
    members: &mut [T],
    attempt: &mut impl FnMut(&mut [T]) -> Result<Vec<R>, Full>,
) -> Vec<Result<R, Full>> {
    match attempt(members) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(full) if members.len() < 2 => members.iter().map(|_| Err(full.clone())).collect(),
        Err(_) => {
            let (first, second) = members.split_at_mut(members.len().div_ceil(2));
            let mut answers = in_halves(first, attempt);
            answers.extend(in_halves(second, attempt));
            answers
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles members in a job that holds at most `room` at once; returns also the sizes of its packs.
    fn doubled(members: usize, room: usize) -> (Vec<Result<usize, Full>>, Vec<usize>) {
        let (mut all, mut sizes) = ((0..members).collect::<Vec<_>>(), Vec::new());
        let answers = in_halves(&mut all, &mut |pack: &mut [usize]| {
            sizes.push(pack.len());
            let full = Full("CUDA_ERROR_OUT_OF_MEMORY".into());
            if pack.len() > room { Err(full) } else { Ok(pack.iter().map(|m| 2 * m).collect()) }
        });
        (answers, sizes)
    }

    #[test]
    fn a_pack_that_fits_is_tried_once() {
        let (answers, sizes) = doubled(5, 8);
        assert_eq!((answers.len(), sizes), (5, vec![5]));
    }

    #[test]
    fn a_pack_that_does_not_fit_is_divided_and_answers_in_order() {
        let (answers, sizes) = doubled(7, 2);
        let answers: Vec<usize> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, [0, 2, 4, 6, 8, 10, 12]);
        assert_eq!(sizes, [7, 4, 2, 2, 3, 2, 1]);
    }

    #[test]
    fn a_member_that_does_not_fit_alone_says_so() {
        let (answers, sizes) = doubled(2, 0);
        assert_eq!(sizes, [2, 1, 1]);
        assert!(answers.iter().all(|r| matches!(r, Err(Full(why)) if why.contains("MEMORY"))));
    }

    #[test]
    fn no_members_give_no_results() {
        assert!(doubled(0, 1).0.is_empty());
    }
}
