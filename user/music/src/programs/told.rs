//! The counts that a sound device keeps of an open file: how often it ran dry, and how far it is behind.
//!
//! *Interface*: [`Told::of`] a file, from the text that the kernel has of its descriptor
//! (`/proc/self/fdinfo`, docs/sound.md). Files that are no sound devices have none.

use std::fs::File;
use std::os::fd::AsRawFd;

/// The counts, where there are any.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How often the device had nothing to play.
    pub xruns: Option<u64>,
    /// Frames that have been written and not heard.
    pub delay: Option<u64>,
}

impl Told {
    /// Those of an open file now.
    pub fn of(file: &File) -> Self {
        let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        Self::read(&std::fs::read_to_string(path).unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let number = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(':')?
                    .trim()
                    .parse()
                    .ok()
            })
        };
        Self {
            xruns: number("xruns"),
            delay: number("delay"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_among_other_lines() {
        let told = Told::read("pos:\t0\nrate:\t44100\nxruns:\t3\ndelay:\t1024\n");
        assert_eq!((told.xruns, told.delay), (Some(3), Some(1024)));
        assert_eq!(Told::read("pos:\t0\nflags:\t02\n"), Told::default());
    }
}
