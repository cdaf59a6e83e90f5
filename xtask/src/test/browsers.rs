//! Firefox and Chromium, unmodified and without a display.
//!
//! *Interface*: `run`, with `--long` only, since their packages are large.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use crate::rootfs::Root;
use crate::{debian, host};
use std::time::Duration;

const PACKAGES: &[&str] = &[
    "chromium",
    "firefox-esr",
    "netpbm",
    "mawk",
    "sed",
    "coreutils",
];

pub(super) fn run(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "browsers", 2, 3072);
    if !kit.long || kit.leaves_out(&machine) {
        return Vec::new();
    }
    let root = debian::unpacked(PACKAGES).and_then(|packages| {
        let mut root = Root::new(Some(&packages))?;
        let scripts = host::project().join("tests/guest");
        root.add(&format!("{}:/tests", scripts.display()))?;
        Ok(root)
    });
    let words = ["/bin/sh", "/tests/browsers.sh"];
    kit.tap_in(root, &machine, &words, Duration::from_secs(900))
}
