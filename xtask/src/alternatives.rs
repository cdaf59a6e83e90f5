//! Names for which Debian's packages offer several programs (`cc`, `vim`, `java`).
//!
//! *Interface*: [`choose`] makes them links in a root of packages, once.
//!
//! Packages ask `update-alternatives` for such a link by their installation scripts ([`SCRIPTS`]), which are
//! programs, and not meant for the host: they run in a guest that has the root and prints what they ask for.
//! Of several offers the highest priority wins, the first of equals.

use crate::failure::{Context, Failure, HOST, Result};
use crate::kernel;
use crate::machine::{Kept, Machine, Running, Status, Streams, usual_memory};
use crate::rootfs::Root;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The scripts' folder in a root.
pub const SCRIPTS: &str = "var/lib/dpkg/info";
/// This file in a root says that all links are made.
const CHOSEN: &str = "var/lib/dpkg/chosen";
/// The guest's work.
const SCRIPT: &str = include_str!("alternatives.sh");
const AT: &str = "var/lib/dpkg/alternatives.sh";
const LIMIT: Duration = Duration::from_secs(300);

/// Makes the links that the packages in `folder` ask for, with `kernel` for the guest.
///
/// # Errors
/// Host failure: the guest does not come to its end, a link cannot be made.
pub fn choose(folder: &Path, kernel: &Path) -> Result<()> {
    let chosen = folder.join(CHOSEN);
    if chosen.exists() {
        return Ok(());
    }
    let scripts = folder.join(SCRIPTS);
    if scripts.is_dir() {
        eprintln!("xtask: asking the packages for names of programs, in a guest");
        let script = folder.join(AT);
        std::fs::write(&script, SCRIPT).context(script.display())?;
        let said = asked(folder, kernel)?;
        std::fs::remove_file(&script).context(script.display())?;
        for (link, target) in offers(&said) {
            make(folder, &link, &target)?;
        }
    }
    std::fs::write(&chosen, "").context(chosen.display())
}

/// The guest's output.
fn asked(folder: &Path, kernel: &Path) -> Result<String> {
    let root = Root::new(Some(folder))?;
    let tables = kernel::tables(kernel).unwrap_or_default();
    let command = ["/bin/sh".to_owned(), format!("/{AT}")];
    let archive = root.finish(tables, &command, &[]);
    let mut machine = Machine::new(kernel);
    machine.append = "console=stream".into();
    machine.memory = usual_memory(archive.len());
    let output = Kept::default();
    let streams = Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(output.clone()),
        error: Box::new(std::io::sink()),
        terminal: false,
    };
    let outcome = Running::start(&machine, &archive, streams)?.wait(Some(LIMIT));
    match outcome.status {
        Status::Exit(0) => Ok(String::from_utf8_lossy(&output.bytes()).into_owned()),
        status => Err(Failure::new(
            HOST,
            format!(
                "the packages' scripts did not end well: {status:?} {}",
                outcome.report
            ),
        )),
    }
}

/// Each link that is asked for, and where it is to lead.
fn offers(said: &str) -> BTreeMap<String, String> {
    let mut best: BTreeMap<String, (i64, String)> = BTreeMap::new();
    for line in said.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["alternative", link, target, priority] = words[..]
            && let Ok(priority) = priority.parse()
            && best.get(link).is_none_or(|(other, _)| *other < priority)
        {
            best.insert(link.to_owned(), (priority, target.to_owned()));
        }
    }
    best.into_iter()
        .map(|(link, (_, target))| (link, target))
        .collect()
}

/// Makes `link` of the root `folder` lead to `target`, unless there is no such thing, or the link's name is a
/// package's or out of the root.
fn make(folder: &Path, link: &str, target: &str) -> Result<()> {
    let inside = |path: &str| {
        let path = path.strip_prefix('/')?;
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        Path::new(path)
            .components()
            .all(plain)
            .then(|| folder.join(path))
    };
    let (Some(at), Some(to)) = (inside(link), inside(target)) else {
        return Ok(());
    };
    let is_busyboxs = std::fs::read_link(&at).is_ok_and(|to| to.ends_with("busybox"));
    if to.symlink_metadata().is_err() || at.symlink_metadata().is_ok() && !is_busyboxs {
        return Ok(());
    }
    if is_busyboxs {
        std::fs::remove_file(&at).context(at.display())?;
    }
    if let Some(parent) = at.parent() {
        std::fs::create_dir_all(parent).context(parent.display())?;
    }
    std::os::unix::fs::symlink(target, &at).context(at.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_offer_wins() {
        let said = "alternative /usr/bin/vi /usr/bin/vim.tiny 15\nnoise\nalternative /usr/bin/vi /usr/bin/vim.basic 30\n\
                    alternative /usr/bin/vi /usr/bin/other 30\nalternative /usr/bin/x\nalternative /a /b none\n";
        let expected = [("/usr/bin/vi".to_owned(), "/usr/bin/vim.basic".to_owned())];
        assert_eq!(offers(said), BTreeMap::from(expected));
    }

    #[test]
    fn links_stay_in_the_root_and_replace_nothing_of_packages() {
        let own = std::env::temp_dir().join(format!("alternatives-{}", std::process::id()));
        let folder = own.join("root");
        let bin = folder.join("usr/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("vim.basic"), "").unwrap();
        std::fs::write(bin.join("mine"), "").unwrap();
        std::os::unix::fs::symlink("busybox", bin.join("vi")).unwrap();
        for link in [
            "/usr/bin/vi",
            "/usr/bin/mine",
            "/usr/bin/../../../x",
            "/new/vim",
        ] {
            make(&folder, link, "/usr/bin/vim.basic").unwrap();
        }
        make(&folder, "/usr/bin/none", "/usr/bin/not-there").unwrap();
        let leads = |name: &str| std::fs::read_link(folder.join(name)).ok();
        let there = Some("/usr/bin/vim.basic".into());
        assert_eq!(leads("usr/bin/vi"), there);
        assert_eq!(leads("new/vim"), there);
        assert_eq!(leads("usr/bin/mine"), None);
        assert!(bin.join("none").symlink_metadata().is_err());
        assert!(!own.join("x").exists());
        std::fs::remove_dir_all(&own).unwrap();
    }
}
