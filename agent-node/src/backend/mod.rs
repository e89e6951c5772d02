//! Backends: the trait that every device kind implements.
