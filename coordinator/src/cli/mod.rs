//! The command line `muster`: subcommand to function.
