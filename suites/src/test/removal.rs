//! Devices that are taken out of a running machine, and put into it again.
//!
//! *Interface*: `run`. Each device is in a slot; the host asks for it back through QEMU's monitor, or takes
//! the power from its slot without asking.

use super::guest::with;
use super::kit::Kit;
use super::shares::Folder;
use super::tap::Check;
use crate::qmp::Monitor;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Kept, Machine, Running, Status, Streams, Virtio};
use xtask::rootfs::Root;

const MINUTE: Duration = Duration::from_secs(60);
const SLICE: Duration = Duration::from_millis(20);

/// Where the guest has the directory.
const GUEST: &str = "/mnt/share";

/// Four programs read and write in the directory until they get an error, which must be this.
const BUSY: &str = r#"
busy() {
    (while dd if=$1/big of=/dev/null bs=64k; do :; done) 2>/tmp/said-1 &
    (while dd if=/dev/zero of=$1/written bs=4k count=64; do :; done) 2>/tmp/said-2 &
    (while ls -l $1; do :; done) >/dev/null 2>/tmp/said-3 &
    (while cat $1/big >$1/copy; do :; done) 2>/tmp/said-4 &
    echo "busy $2" >&2
    wait
    for one in 1 2 3 4; do
        grep -q 'I/O error\|Input/output error' /tmp/said-$one || { tail -2 /tmp/said-$one >&2; exit $one; }
    done
    ls $1/big 2>/dev/null && exit 5
    echo "gone $2" >&2
}
has() { while ! grep -q "$1" /syn/devices; do sleep 0.05; done; }
lacks() { while grep -q "$1" /syn/devices; do sleep 0.05; done; echo "lacks $1" >&2; }
"#;

/// The script of the first process; it ends with the error of its input, whose device goes last.
const SCRIPT: &str = r#"
busy /mnt/share 1
umount /mnt/share || exit 6
lacks virtio-9p
has virtio-9p
mount -t 9p -o trans=virtio,version=9p2000.L share0 /mnt/share || exit 7
[ "$(cat /mnt/share/file)" = "of the host" ] || exit 8
busy /mnt/share 2
umount /mnt/share || exit 9
lacks virtio-9p
lacks virtio-rng
head -c 100000 /dev/urandom | wc -c | grep -q 100000 || exit 10
has virtio-rng
echo last >&2
cat
# Nobody hears what it says now.
cat
exit $((40 + $?))
"#;

/// The check. On one processor: QEMU 7.2 itself ends by a fault, now and then, when a device goes while one
/// of several processors is at its registers.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "devices-slots", 1, 128);
    machine.virtio = Some(Virtio::Messages);
    machine.slots = true;
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let name = "whole devices, taken out while in use";
    vec![match removed(kit, &mut machine) {
        Ok(told) => Check::new(name, told.is_empty(), told),
        Err(failure) => Check::new(name, false, failure.message),
    }]
}

/// The machine, and what is said to it and by it.
pub struct Talk {
    running: Running,
    monitor: Monitor,
    errors: Kept,
    /// Nothing comes in, and no end.
    _input: UnixStream,
}

impl Talk {
    /// Boots the machine with this first process, whose input neither brings anything nor ends.
    pub fn start(kit: &Kit, root: Root, machine: &mut Machine, words: &[&str]) -> Result<Self> {
        machine.monitor = true;
        let (input, theirs) = UnixStream::pair().context("no sockets")?;
        let errors = Kept::default();
        let streams = Streams {
            input: Box::new(theirs),
            output: Box::new(Kept::default()),
            error: Box::new(errors.clone()),
            terminal: false,
        };
        let mut running = kit.start_root(root, machine, words, streams)?;
        let socket = running
            .monitor()
            .ok_or_else(|| Failure::new(HOST, "no monitor"))?;
        Ok(Talk {
            running,
            monitor: Monitor::greet(socket, MINUTE)?,
            errors,
            _input: input,
        })
    }

    /// Lets `words` be said to it and heard of it, then waits for its end: what is told of it if that is not
    /// by this status.
    pub fn converse(mut self, status: i32, words: impl FnOnce(&mut Self) -> Result<()>) -> String {
        let (wrong, patience) = match words(&mut self) {
            Ok(()) => (String::new(), MINUTE),
            Err(failure) => (failure.message, Duration::ZERO),
        };
        let outcome = self.running.wait(Some(patience));
        let said = String::from_utf8_lossy(&self.errors.bytes()).into_owned();
        match outcome.status == Status::Exit(status) && wrong.is_empty() {
            true => String::new(),
            false => format!("{wrong}; {:?}, [{said}] {}", outcome.status, outcome.report),
        }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.errors.bytes()).into_owned()
    }

    /// Waits until the guest has said `line`, in vain if it ends.
    pub fn hear(&self, line: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            // First, since it may say so and end in between.
            let over = begun.elapsed() > MINUTE || self.running.has_ended();
            if self.said().lines().any(|said| said == line) {
                return Ok(());
            }
            if over {
                return Err(Failure::new(HOST, format!("nobody says [{line}]")));
            }
            std::thread::sleep(SLICE);
        }
    }

    /// The monitor's answer to `line`.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.monitor.ask(line)
    }

    /// Has the monitor do something, which it refuses for as long as the guest is not done with what was
    /// before.
    pub fn order(&mut self, line: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let answer = self.monitor.ask(line)?;
            if answer.trim().is_empty() {
                return Ok(());
            }
            if begun.elapsed() > MINUTE {
                return Err(Failure::new(HOST, format!("{line}: {answer}")));
            }
            std::thread::sleep(SLICE);
        }
    }

    /// Asks QEMU until `good` is true of what it says.
    pub fn until(&mut self, line: &str, good: impl Fn(&str) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let said = self.ask(line)?;
            if good(&said) {
                return Ok(());
            }
            if begun.elapsed() > MINUTE {
                return Err(Failure::new(HOST, format!("{line}: {said}")));
            }
            std::thread::sleep(SLICE);
        }
    }

    /// Pulls `device`, a virtio device of one queue, while programs use it. QEMU 7.2 ends by a fault when its
    /// file server comes to answer a question of a device that was pulled; so the processors stand still
    /// meanwhile, and it goes when all questions that the server has are answered. Nobody hears the guest's
    /// questions then.
    fn pull_in_use(&mut self, device: &str) -> Result<()> {
        self.order("stop")?;
        let queue =
            format!("info virtio-queue-status /machine/peripheral/{device}/virtio-backend 0");
        self.until(&queue, |said| {
            said.lines()
                .any(|line| line.split_whitespace().eq(["inuse:", "0"]))
        })?;
        self.pull(device)?;
        self.order("cont")
    }

    /// Takes the power from the slot on bus 0 that `device` is in, as somebody who pulls it out.
    fn pull(&mut self, device: &str) -> Result<()> {
        const ADDRESS: &str = "0xcf8";
        let tree = self.monitor.ask("info qtree")?;
        let place = slot_of(&tree, device)
            .ok_or_else(|| Failure::new(HOST, format!("no slot of {device}")))?;
        let word = |offset: u32| format!("o/w {ADDRESS} {:#x}", 0x8000_0000 | place << 8 | offset);
        // Where the list of capabilities has the one of PCI Express.
        let read = |monitor: &mut Monitor, offset: u32| -> Result<u32> {
            monitor.ask(&word(offset))?;
            let answer = monitor.ask("i/w 0xcfc")?;
            let value = answer.rsplit("0x").next().unwrap_or_default().trim();
            u32::from_str_radix(value, 16).context(answer)
        };
        let mut at = read(&mut self.monitor, 0x34)? & 0xfc;
        while at != 0 {
            let head = read(&mut self.monitor, at)?;
            if head & 0xff == 0x10 {
                let control = read(&mut self.monitor, at + 0x18)? & 0xffff;
                self.order(&word(at + 0x18))?;
                // No power, no light; nothing of status is taken back.
                return self.order(&format!("o/w 0xcfc {:#x}", control | 0x700));
            }
            at = head >> 8 & 0xfc;
        }
        Err(Failure::new(HOST, format!("{device} is in no slot")))
    }
}

/// Device and function of the port, on bus 0, that `device` is behind, by what the monitor says of all
/// devices: ports come before what is in them.
fn slot_of(tree: &str, device: &str) -> Option<u32> {
    let mut port = None;
    let mut is_port = false;
    for line in tree.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("dev: ") {
            is_port = named.starts_with("pcie-root-port");
            if named.contains(&format!("\"{device}\"")) {
                return port;
            }
        } else if is_port && let Some(place) = line.strip_prefix("addr = ") {
            let (slot, function) = place.split_once('.')?;
            let slot = u32::from_str_radix(slot, 16).ok()?;
            port = Some(slot << 3 | function.parse::<u32>().ok()?);
        }
    }
    None
}

fn removed(kit: &Kit, machine: &mut Machine) -> Result<String> {
    let folder = Folder::new(&machine.name)?;
    folder.make("file", b"of the host\n")?;
    let big: Vec<u8> = (0..1_000_000u32).map(|at| (at >> 7) as u8).collect();
    folder.make("big", &big)?;
    let script = format!("{BUSY}{SCRIPT}");
    let words = ["/bin/sh", "-c", script.as_str()];
    let mut root = kit.root(&words)?;
    machine.shares = vec![root.share(&format!("{}:{GUEST}", folder.path().display()))?];
    let talk = Talk::start(kit, root, machine, &words)?;
    let told = talk.converse(41, |talk| {
        // The order in which the machine has them: console, random numbers, directory.
        const SHARE: &str = "share0-device";
        talk.hear("busy 1")?;
        talk.order(&format!("device_del {SHARE}"))?;
        talk.hear("gone 1")?;
        talk.hear("lacks virtio-9p")?;
        talk.order(&format!(
            "device_add virtio-9p-pci,disable-legacy=on,id={SHARE},fsdev=share0,mount_tag=share0,bus=slot2"
        ))?;
        talk.hear("busy 2")?;
        talk.pull_in_use(SHARE)?;
        talk.hear("gone 2")?;
        talk.order("device_del rng")?;
        talk.hear("lacks virtio-rng")?;
        talk.order("device_add virtio-rng-pci,disable-legacy=on,id=rng,bus=slot1")?;
        talk.hear("last")?;
        talk.order("device_del console")
    });
    let same = std::fs::read(folder.path().join("big")).context("big")? == big;
    Ok(match same {
        true => told,
        false => format!("what was only read is another; {told}"),
    })
}

#[cfg(test)]
mod tests {
    use super::slot_of;

    #[test]
    fn a_slot_is_found_by_what_is_in_it() {
        let tree = "dev: pcie-root-port, id \"slot0\"\n addr = 02.0\n bus: slot0\n dev: virtio-rng-pci, id \"rng\"\n addr = 00.0\n\
                    dev: pcie-root-port, id \"slot1\"\n addr = 1f.1\n dev: virtio-9p-pci, id \"share\"\n addr = 00.0\n";
        assert_eq!(slot_of(tree, "rng"), Some(0x10));
        assert_eq!(slot_of(tree, "share"), Some(0xf9));
        assert_eq!(slot_of(tree, "none"), None);
    }
}
