//! Entries: what one leaf says, who may say it, and its canonical bytes.
