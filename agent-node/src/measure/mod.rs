//! Measuring: pair order, stopping, medians.
