//! The journal: durable facts as versioned, checksummed JSON frames.
