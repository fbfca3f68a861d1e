//! The part of manycore that lives in the emulated program.
