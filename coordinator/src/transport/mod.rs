//! The QUIC side: listening, admission, sessions.
