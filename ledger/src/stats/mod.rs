//! Statistics: which estimator answers which question, with sources.
