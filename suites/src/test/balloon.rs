//! Memory that the host asks back while the machine runs, and gives again.
//!
//! *Interface*: `run`.

use super::guest::with;
use super::kit::Kit;
use super::removal::Talk;
use super::tap::Check;
use serde_json::Value;
use xtask::failure::Result;
use xtask::machine::Machine;

/// Says when so much memory is free, and that programs still run and get memory when there is little.
const SCRIPT: &str = r#"
free() { awk '/^MemFree/ { print $2 }' /proc/meminfo; }
echo ready >&2
while [ "$(free)" -gt 130000 ]; do sleep 0.05; done
echo small >&2
while [ "$(free)" -gt 60000 ]; do sleep 0.05; done
head -c 4000000 /dev/zero >/tmp/some && cmp -n 4000000 /tmp/some /dev/zero || exit 1
rm /tmp/some
echo least >&2
while [ "$(free)" -lt 200000 ]; do sleep 0.05; done
head -c 100000000 /dev/zero >/tmp/more && cmp -n 100000000 /tmp/more /dev/zero || exit 2
exit 7
"#;

/// The check.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "devices-balloon", 2, 256);
    machine.balloon = true;
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let name = "memory that the host asks back";
    vec![match asked_back(kit, &mut machine) {
        Ok(told) => Check::new(name, told.is_empty(), told),
        Err(failure) => Check::new(name, false, failure.message),
    }]
}

fn asked_back(kit: &Kit, machine: &mut Machine) -> Result<String> {
    const DEVICE: &str = "/machine/peripheral/balloon";
    let words = ["/bin/sh", "-c", SCRIPT];
    let talk = Talk::start(kit, kit.root(&words)?, machine, &words)?;
    Ok(talk.converse(7, |talk| {
        talk.hear("ready")?;
        talk.order("balloon 128")?;
        talk.hear("small")?;
        talk.until("info balloon", |said| said.trim() == "balloon: actual=128")?;
        talk.order(&format!("qom-set {DEVICE} guest-stats-polling-interval 1"))?;
        talk.until(&format!("qom-get {DEVICE} guest-stats"), |said| {
            let told: Option<Value> = serde_json::from_str(said).ok();
            let bytes = |name: &str| told.as_ref()?["stats"][name].as_u64();
            let total = bytes("stat-total-memory").unwrap_or(0);
            let free = bytes("stat-free-memory").unwrap_or(u64::MAX);
            (200 << 20..=256 << 20).contains(&total) && free < 120 << 20
        })?;
        // More than it can spare: it keeps some.
        talk.order("balloon 1")?;
        talk.hear("least")?;
        talk.order("balloon 256")
    }))
}
