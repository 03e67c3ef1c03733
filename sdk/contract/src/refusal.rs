use crate::Member;

/// Why an answer is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not what the contract says.
    #[error("{0}")]
    Bad(String),
    /// It does what nobody has allowed.
    #[error("{what}")]
    Ungranted {
        /// What it does.
        what: String,
        /// What would allow it; none where nothing does.
        grant: Option<Grant>,
    },
    /// It has more of something than there may be.
    #[error("more than {most} {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much is allowed.
        most: usize,
    },
}

/// The grant that an answer needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// To publish under that key.
    Publish(String),
    /// To change that member of a result.
    Result(Member),
}
