//! The streams of a program: standard input and output without buffers of Rust's, and files by path.
//!
//! *Interface*: [`input`], [`output`]; [`reading`] and [`writing`] open a path. `-` is a standard stream.
//! [`Text`] prints lines, each at once.

use super::failure::Failure;
use super::words::Given;
use crate::stream::{Input, Output};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;

/// The path that stands for standard input and output.
const STANDARD: &str = "-";

/// Standard input in blocks.
///
/// # Errors
/// It is closed.
pub fn input(given: &Given) -> Result<Input<File>, Failure> {
    reading(given, OsStr::new(STANDARD))
}

/// Standard output.
///
/// # Errors
/// It is closed.
pub fn output() -> Result<Output<File>, Failure> {
    Ok(Output::new(copy(std::io::stdout(), "standard output")?))
}

/// A file or a device to read.
///
/// # Errors
/// It cannot be opened.
pub fn reading(given: &Given, path: &OsStr) -> Result<Input<File>, Failure> {
    let file = if path == STANDARD {
        copy(std::io::stdin(), "standard input")?
    } else {
        File::open(path).map_err(|error| Failure::with(&path.to_string_lossy(), &error))?
    };
    Ok(Input::new(file, given.whole("frames")))
}

/// A device to write, or a file that is there.
///
/// # Errors
/// It cannot be opened.
pub fn writing(path: &OsStr) -> Result<Output<File>, Failure> {
    if path == STANDARD {
        return output();
    }
    let opened = OpenOptions::new().write(true).open(path);
    let file = opened.map_err(|error| Failure::with(&path.to_string_lossy(), &error))?;
    Ok(Output::new(file))
}

fn copy(stream: impl AsFd, name: &str) -> Result<File, Failure> {
    let copy = stream.as_fd().try_clone_to_owned();
    Ok(File::from(
        copy.map_err(|error| Failure::with(name, &error))?,
    ))
}

/// Standard output for lines.
pub struct Text(File);

impl Text {
    /// Standard output.
    ///
    /// # Errors
    /// It is closed.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self(copy(std::io::stdout(), "standard output")?))
    }

    /// Prints lines.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn print(&mut self, lines: &str) -> Result<(), Failure> {
        let written = self.0.write_all(lines.as_bytes());
        written.map_err(|error| Failure::writing("standard output", &error))
    }
}
