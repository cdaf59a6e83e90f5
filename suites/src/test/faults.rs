//! Page faults, counted from outside: QEMU notes every exception.
//!
//! *Interface*: [`of_forks`].

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;
use xtask::failure::{Context, Failure, PANIC, Result};
use xtask::machine::Status;

const FORKS: u64 = 640;

/// A process that forks again and again faults less than once a fork, its children included; also after
/// another has lived in its memory.
pub fn of_forks(kit: &Kit) -> Vec<Check> {
    [None, Some("vfork"), Some("spawn")]
        .map(|guest| {
            let name = format!("faults of forks after {}", guest.unwrap_or("nothing"));
            match each(kit, guest) {
                Ok((faults, told)) => Check::new(name, faults < FORKS, told),
                Err(failure) => Check::hindered(name, failure),
            }
        })
        .into()
}

/// Faults of [`FORKS`] forks, less than of none.
fn each(kit: &Kit, guest: Option<&str>) -> Result<(u64, String)> {
    let without = faults(kit, 0, guest)?;
    let with = faults(kit, FORKS, guest)?;
    let told = format!("{with} faults with {FORKS} forks, {without} without");
    Ok((with.saturating_sub(without), told))
}

/// Faults of a machine that boots and makes so many forks.
fn faults(kit: &Kit, forks: u64, guest: Option<&str>) -> Result<u64> {
    let mut machine = with(kit, "faults", 1, 128);
    machine.icount = Some(0);
    let notes = kit.file("faults.exceptions")?;
    machine.extra.extend(["-d", "int", "-D"].map(Into::into));
    machine.extra.push(notes.clone().into());
    let count = forks.to_string();
    let mut words = vec!["/tests/forks-glibc", &count];
    words.extend(guest);
    let ran = kit.boot(&machine, &words, Vec::new(), Duration::from_secs(60))?;
    if ran.outcome.status != Status::Exit(0) {
        return Err(Failure::new(PANIC, ran.told()));
    }
    let text = std::fs::read(&notes).context(format!("cannot read {}", notes.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.matches(" v=0e ").count() as u64)
}
