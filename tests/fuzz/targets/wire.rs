//! Frames of wire version 1: what decodes encodes to the same bytes, and no message is longer than a frame.

use super::Target;
use super::repository::{files, tagged};
use fleet_config::wire::codec::{PREFIX, body_length, decode, encode};
use fleet_config::wire::v1::{Answer, Assign, BlobReply, FromCoordinator, FromNode, Opening, ReportReply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A list takes room for at most one mebibyte of the elements that it claims before they are read, and lists lie in lists.
pub(crate) const WIRE: Target = Target::new("wire", run, seeds).memory(4 << 20);

fn run(data: &[u8]) {
    let Some((kind, frame)) = data.split_first() else { return };
    let Some((prefix, rest)) = frame.split_first_chunk::<PREFIX>() else { return };
    let body = body_length(*prefix).map_or(rest, |length| &rest[..length.min(rest.len())]);
    match kind % 7 {
        0 => message::<FromNode>(body),
        1 => message::<FromCoordinator>(body),
        2 => message::<Answer>(body),
        3 => message::<Opening>(body),
        4 => message::<Assign>(body),
        5 => message::<ReportReply>(body),
        _ => message::<BlobReply>(body),
    }
}

fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &[u8]) {
    let Ok(first) = decode::<T>(body) else { return };
    // Variable-length integers may be spelled longer than they need, so the bytes may differ once; the message not.
    let frame = encode(&first).expect("what was read can be written");
    assert_eq!(decode::<T>(&frame[PREFIX..]).expect("what was written can be read"), first);
}

fn seeds() -> Vec<Vec<u8>> {
    let frames = files("tests/vectors/wire-v1", ".hex");
    let decode = |hex: &Vec<u8>| data_encoding::HEXLOWER.decode(hex.trim_ascii()).expect("vectors are hex");
    frames.iter().map(decode).flat_map(|frame| (0..7).map(move |kind| tagged(kind, &frame))).collect()
}
