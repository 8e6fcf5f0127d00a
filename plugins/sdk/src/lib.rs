//! What a hipDNN engine plugin is made of.
