//! From a project to a manifest.

mod place;
mod script;
mod tree;
