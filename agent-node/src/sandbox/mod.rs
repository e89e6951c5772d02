//! The sandbox: what compilers and candidates may do; default deny.
