//! The Merkle log over opaque bytes: tree, tiles, signed notes, WAL and integration.
