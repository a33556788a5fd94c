//! `weir` as its users meet it: the real binary, its two streams and its exit code.

mod append;
mod backup;
mod blob;
mod branch;
mod demo;
mod disk;
mod doctor;
mod files;
mod hostile;
mod processes;
mod reading;
mod transfer;
mod usage;
mod verify;
mod weir;
