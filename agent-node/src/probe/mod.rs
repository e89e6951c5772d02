//! Probing: the environment fingerprint of this machine and its devices.
