//! The folder of suites from elsewhere: archives of sources that are no part of the project.
//!
//! *Interface*: [`folder`] is where they are; [`archive`] finds the newest of one suite there.

use std::path::{Path, PathBuf};
use xtask::host;

/// The variable that names the folder.
const VARIABLE: &str = "SYNTHESIS_SUITES";
/// Where it is otherwise, beside the project's folder.
const USUAL: &str = "../shared/suites";

/// The folder that was asked for, or the usual one.
pub fn folder(asked: Option<PathBuf>) -> PathBuf {
    asked
        .or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from))
        .unwrap_or_else(|| host::project().join(USUAL))
}

/// The newest archive `NAME-*.tar.xz` in the folder of suites, or why there is none.
///
/// # Errors
/// A sentence for the user.
pub fn archive(suites: &Path, name: &str) -> Result<PathBuf, String> {
    let listing = std::fs::read_dir(suites).into_iter().flatten().flatten();
    let found = listing.map(|item| item.path()).filter(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = file.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('-') && rest.ends_with(".tar.xz"))
    });
    found.max().ok_or_else(|| {
        format!(
            "there is no {name}-*.tar.xz in {} ({VARIABLE} names another folder)",
            suites.display()
        )
    })
}
