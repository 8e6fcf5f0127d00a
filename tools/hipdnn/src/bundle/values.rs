//! The values of a bundle's tensors: the bytes of their memory, in files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::computation::Arrays;
use crate::failure::{Failure, Result};
use crate::graph::{Graph, Tensor};
use crate::tensor::{Array, bytes};

/// Where the files are: `{folder}/{prefix}tensor{uid}.bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    folder: PathBuf,
    prefix: String,
}

impl Values {
    /// The files in a folder whose names begin with the prefix.
    pub fn new(folder: &Path, prefix: &str) -> Self {
        Self { folder: folder.to_owned(), prefix: prefix.to_owned() }
    }

    fn path(&self, tensor: &Tensor) -> PathBuf {
        self.folder.join(format!("{}tensor{}.bin", self.prefix, tensor.uid))
    }

    /// The file of DVC that stands for the values, if it is there: they may not have been fetched.
    pub fn pointer(&self) -> Option<PathBuf> {
        Some(self.folder.join(format!("{}tensors.dvc", self.prefix))).filter(|path| path.exists())
    }

    /// The inputs of a graph; `None` if no file has one.
    pub fn inputs(&self, graph: &Graph) -> Result<Option<Arrays>> {
        self.all(graph.bound().filter(|tensor| graph.producer(tensor.uid).is_none()))
    }

    /// The results that are expected; `None` if no file has one.
    pub fn results(&self, graph: &Graph) -> Result<Option<Arrays>> {
        self.all(graph.bound().filter(|tensor| graph.producer(tensor.uid).is_some()))
    }

    /// The values of tensors, all or none.
    fn all<'g>(&self, tensors: impl Iterator<Item = &'g Tensor>) -> Result<Option<Arrays>> {
        let (there, missing): (Vec<_>, Vec<_>) = tensors.partition(|tensor| self.path(tensor).exists());
        match (there.first(), missing.first()) {
            (None, _) => Ok(None),
            (Some(first), Some(missing)) => Err(Failure::input(format!(
                "the file is missing, but {} is there",
                self.path(first).display()
            ))
            .of_file(&self.path(missing))),
            _ => there.iter().map(|tensor| self.read(tensor)).collect::<Result<_>>().map(Some),
        }
    }

    fn read(&self, tensor: &Tensor) -> Result<(i64, Array)> {
        let path = self.path(tensor);
        let memory = fs::read(&path).map_err(|error| Failure::input(error.to_string()).of_file(&path))?;
        let expected = bytes(tensor)?;
        if memory.len() != expected {
            return Err(Failure::input(format!(
                "the file has {} bytes, expected {expected} for tensor {} of {}",
                memory.len(),
                tensor.label(),
                tensor.data_type
            ))
            .of_file(&path));
        }
        Ok((tensor.uid, Array::read(tensor, &memory)?))
    }
}
