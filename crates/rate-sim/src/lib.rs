//! Rate simulator.
