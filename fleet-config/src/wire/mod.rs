//! The sentences between coordinator and node.
