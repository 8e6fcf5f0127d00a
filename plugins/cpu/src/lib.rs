//! The CPU engines of hipDNN, as an engine plugin.
