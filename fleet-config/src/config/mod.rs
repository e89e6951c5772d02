//! Settings: one struct per file kind; text is parsed, then checked, then typed.
