//! One file for each subcommand.

pub(super) mod agent;
pub(super) mod bench;
mod best;
pub(super) mod case;
mod comparable;
pub(super) mod compile;
pub(super) mod doctor;
pub(super) mod down;
mod economics;
mod explain;
pub(super) mod insight;
pub(super) mod ledger;
mod matrix;
pub(super) mod node;
mod optimize;
mod policy;
mod portability;
pub(super) mod rank;
pub(super) mod rejudge;
mod reward;
pub(super) mod show;
pub(super) mod status;
mod strength;
pub(super) mod submit;
pub(super) mod task;
pub(super) mod up;
pub(super) mod verify;
