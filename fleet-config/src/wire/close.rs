//! Codes with which either side closes a connection or one stream; stable numbers, part of the protocol.

/// Label of the keying material that [`super::v1::Hello::proof`] signs.
pub const PROOF_LABEL: &[u8] = b"EXPORTER-muster-hello";

/// Bytes of that keying material.
pub const PROOF_MATERIAL: usize = 32;

/// What the proof signs for `material` exported from the TLS session.
pub fn proof_message(material: &[u8; PROOF_MATERIAL]) -> Vec<u8> {
    let mut message = b"muster-hello/1\0".to_vec();
    message.extend_from_slice(material);
    message
}

/// Why a connection or a stream is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum CloseCode {
    #[error("done")]
    Done,
    #[error("bytes that are no legal frame of this stream")]
    BadFrame,
    #[error("not admitted")]
    NotAdmitted,
    #[error("replaced by a newer connection of the same node")]
    Replaced,
    #[error("no answer in time")]
    TooLate,
    #[error("a limit was passed")]
    TooMuch,
    #[error("shutting down")]
    ShuttingDown,
    #[error("this side failed")]
    Internal,
    #[error("blob bytes that are not those that were declared")]
    BadBlob,
}

impl CloseCode {
    /// Every code.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::BadFrame,
        Self::NotAdmitted,
        Self::Replaced,
        Self::TooLate,
        Self::TooMuch,
        Self::ShuttingDown,
        Self::Internal,
        Self::BadBlob,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::Done => 0,
            Self::BadFrame => 1,
            Self::NotAdmitted => 2,
            Self::Replaced => 3,
            Self::TooLate => 4,
            Self::TooMuch => 5,
            Self::ShuttingDown => 6,
            Self::Internal => 7,
            Self::BadBlob => 8,
        }
    }
    /// The code of a number, if this version knows it.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|code| u64::from(code.number()) == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_number() {
        for (position, code) in CloseCode::ALL.into_iter().enumerate() {
            assert_eq!(code.number() as usize, position);
            assert_eq!(CloseCode::of(position as u64), Some(code));
        }
        assert_eq!(CloseCode::of(9), None);
        assert_eq!(CloseCode::of(u64::MAX), None);
    }
}
