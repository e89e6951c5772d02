//! What the candidate printed while it was validated: of its first process that did, and of the last one.

use super::fault::Party;
use crate::backend::Failure;
use fleet_config::domain::words::quoted;
use std::cell::RefCell;

/// The words heard so far, quoted. Bounded, since a quotation is.
#[derive(Debug, Default)]
pub(super) struct Words(RefCell<Heard>);

#[derive(Debug, Default)]
struct Heard {
    first: Option<String>,
    /// Of the process that ended last; `None` if it was silent.
    last: Option<String>,
}

impl Words {
    /// Keeps what a process of `party` printed. Only the candidate's is kept: the others' words are their task's.
    pub(super) fn hear(&self, party: Party, printed: impl FnOnce() -> Vec<u8>) {
        match party {
            Party::Reference | Party::Baseline => {}
            Party::Candidate => {
                let words = quoted(&printed());
                let mut heard = self.0.borrow_mut();
                if heard.first.is_none() {
                    heard.first.clone_from(&words);
                }
                heard.last = words;
            }
        }
    }

    /// What the record quotes: beside a failure the words of the process that failed, which ended last.
    pub(super) fn of(&self, failure: Option<&Failure>) -> Option<String> {
        let Heard { first, last } = self.0.take();
        match failure {
            Some(_) => last.or(first),
            None => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::Outcome;

    fn heard(says: &[(Party, &str)]) -> Words {
        let words = Words::default();
        for (party, text) in says {
            words.hear(*party, || text.as_bytes().to_vec());
        }
        words
    }

    #[test]
    fn the_candidate_is_quoted_and_nobody_else() {
        let says = [(Party::Reference, "reference"), (Party::Candidate, "one"), (Party::Candidate, "two")];
        let right = heard(&says).of(None).unwrap();
        assert!(
            right.contains("| one") && !right.contains("two") && !right.contains("| reference"),
            "{right}"
        );
        let failure = Failure::new(Outcome::ok());
        assert!(heard(&says).of(Some(&failure)).unwrap().contains("| two"));
        assert_eq!(heard(&[(Party::Baseline, "b"), (Party::Candidate, "")]).of(None), None);
    }
}
