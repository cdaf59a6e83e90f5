//! A virtual machine: its description, and QEMU's command line for it.
//!
//! *Interface*: [`Machine`] describes it; [`Running::start`] boots it (`machine/running.rs`).
//!
//! Source: `docs/run-contract.md`.

mod running;

use crate::failure::{Failure, Result, USAGE};
pub use running::{Handle, Kept, Outcome, Running, Status, Streams};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The machine type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chipset {
    /// A PC with PCI Express.
    Q35,
    /// QEMU's minimal machine, without PCI.
    Microvm,
}

/// The accelerator that executes the instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accel {
    /// Software emulation.
    Tcg,
    /// The host's processor.
    Kvm,
    /// `Kvm` when the host's CPU can, else `Tcg`.
    Auto,
}

/// The virtio devices of a machine: a console with a port for each standard stream, and a source of random
/// numbers. How they interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Virtio {
    /// Each queue by messages of its own (MSI-X).
    Messages,
    /// By shared lines.
    Lines,
}

/// A directory of the host that the machine gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The device's name.
    pub tag: String,
    /// The directory.
    pub directory: PathBuf,
}

/// Where the kernel's log goes.
#[derive(Clone, Debug)]
pub enum Log {
    /// Into a file.
    File(PathBuf),
    /// On standard error.
    Stderr,
}

impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Log::File(path) => write!(f, "log: {}", path.display()),
            Log::Stderr => f.write_str("log: standard error"),
        }
    }
}

impl Log {
    /// Its text, if it went into a file that can be read.
    pub fn text(&self) -> String {
        let Log::File(path) = self else {
            return String::new();
        };
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The memory that the kernel needs for a root archive of `len` bytes, as docs/run-contract.md has it.
pub const fn memory_for_root(len: u64) -> u64 {
    len + len / 16 + (14 << 20)
}

/// The memory of a machine whose user gives no size: for programs, and as much for a small root.
const USUAL_MEMORY: u64 = 256 << 20;

/// The memory of a machine with a root archive of `len` bytes whose user gives no size.
pub fn usual_memory(len: usize) -> u64 {
    let beside = memory_for_root(len as u64).saturating_sub(USUAL_MEMORY / 8);
    USUAL_MEMORY + beside.next_multiple_of(64 << 20)
}

/// The description of a machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name in a test.
    pub name: String,
    /// Machine type.
    pub chipset: Chipset,
    /// CPUs.
    pub cpus: u32,
    /// CPUs that there is room for, if more. With room for several QEMU generates atomic instructions as such
    /// even while there is one.
    pub room: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Time is counted in instructions: each takes two to the power of this many nanoseconds.
    pub icount: Option<u32>,
    /// The accelerator.
    pub accel: Accel,
    /// The kernel: an ELF with a PVH note, or a Linux bzImage.
    pub kernel: PathBuf,
    /// The kernel's command line.
    pub append: String,
    /// The kernel is another's, which would take our words for its first program's.
    pub foreign: bool,
    /// Where the log goes.
    pub log: Log,
    /// More words for QEMU.
    pub extra: Vec<OsString>,
    /// Show QEMU's display.
    pub display: bool,
    /// It can be asked through `Running::monitor`.
    pub monitor: bool,
    /// It stands still at first, until it is let run through its monitor.
    pub still: bool,
    /// Virtio devices: over PCI, or where the machine type has no such bus, in memory.
    pub virtio: Option<Virtio>,
    /// Directories of the host.
    pub shares: Vec<Share>,
    /// Each device on PCI is in a slot of its own, `slot0` and so on, and can be taken out while the machine
    /// runs.
    pub slots: bool,
    /// The host may ask for memory back.
    pub balloon: bool,
    /// The machine has tables of the firmware's.
    pub acpi: bool,
    /// It has a sound card, and what is played goes into this file.
    pub audio: Option<PathBuf>,
    /// The kind of that card.
    pub card: Card,
}

/// QEMU's audio device that writes a file, without its path: at the card's own rate, so that each sample
/// arrives as it is, and as often as periods are short.
pub const WAV: &str =
    "wav,id=sound,timer-period=500,out.frequency=44100,out.channels=2,out.format=s16";

/// A kind of sound card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Card {
    /// Intel's AC97 interface.
    Ac97,
    /// Intel's High Definition Audio, with a codec that plays and records.
    Hda,
}

impl Card {
    /// By its name on the command line.
    pub fn named(name: &str) -> Option<Card> {
        match name {
            "ac97" => Some(Card::Ac97),
            "hda" => Some(Card::Hda),
            _ => None,
        }
    }

    /// Its devices, `card` first, connected to the audio device `sound`; `place` says where on the bus.
    pub fn devices(self, place: &str) -> Vec<String> {
        match self {
            Card::Ac97 => vec![format!("AC97,id=card,audiodev=sound{place}")],
            Card::Hda => vec![
                format!("ich9-intel-hda,id=card{place}"),
                "hda-duplex,bus=card.0,audiodev=sound".to_owned(),
            ],
        }
    }
}

impl Machine {
    /// A machine with the reference settings.
    pub fn new(kernel: &Path) -> Self {
        Self {
            name: String::new(),
            chipset: Chipset::Q35,
            cpus: 1,
            room: 1,
            memory: 256 << 20,
            icount: None,
            accel: Accel::Tcg,
            kernel: kernel.to_path_buf(),
            append: String::new(),
            foreign: false,
            log: Log::File(PathBuf::from("/dev/null")),
            extra: Vec::new(),
            display: false,
            monitor: false,
            still: false,
            virtio: None,
            shares: Vec::new(),
            slots: false,
            balloon: false,
            acpi: true,
            audio: None,
            card: Card::Ac97,
        }
    }

    /// The channels of the ports that it has.
    fn port_channels(&self) -> &'static [&'static str] {
        match self.virtio {
            Some(_) => &PORTS,
            None => &[],
        }
    }

    /// QEMU's words. `root` is the archive; `dir` has the sockets of the channels.
    pub fn words(&self, root: &Path, dir: &Path) -> Result<Vec<OsString>> {
        let mut words: Vec<OsString> = Vec::new();
        let mut put = |list: &[&str]| words.extend(list.iter().map(OsString::from));
        put(&["-nodefaults", "-no-user-config", "-no-reboot"]);
        put(match self.chipset {
            Chipset::Q35 => &["-machine", "q35"],
            Chipset::Microvm if self.acpi => &["-machine", "microvm,acpi=on,rtc=on,isa-serial=off"],
            Chipset::Microvm => &[
                "-machine",
                "microvm,acpi=off,rtc=on,isa-serial=off,auto-kernel-cmdline=on",
            ],
        });
        if self.chipset == Chipset::Microvm {
            put(&["-global", "virtio-mmio.force-legacy=false"]);
        }
        let kvm = match self.accel {
            Accel::Tcg => false,
            Accel::Auto => host_virtualizes() && self.icount.is_none(),
            Accel::Kvm if self.icount.is_some() => {
                return Err(Failure::new(
                    USAGE,
                    "--icount counts instructions, which --accel kvm cannot",
                ));
            }
            Accel::Kvm if !host_virtualizes() => {
                return Err(Failure::new(
                    USAGE,
                    "--accel kvm: this CPU shows neither vmx nor svm",
                ));
            }
            Accel::Kvm => true,
        };
        if let Some(shift) = self.icount {
            put(&["-icount", &format!("shift={shift},sleep=off")]);
            // Without `rep movsb` counting once a byte: see docs/results.md.
            put(&["-cpu", "max,-erms,-fsrm"]);
        } else if kvm {
            put(&["-accel", "kvm", "-cpu", "host"]);
        } else {
            put(&[
                "-accel",
                if self.cpus > 1 {
                    "tcg,thread=multi"
                } else {
                    "tcg"
                },
                "-cpu",
                "max",
            ]);
        }
        put(&[
            "-smp",
            &format!("{},maxcpus={}", self.cpus, self.room.max(self.cpus)),
            "-m",
            &format!("{}k", self.memory >> 10),
        ]);
        put(&["-display", if self.display { "gtk" } else { "none" }]);
        let channel = |name: &str| format!("socket,id={name},path={}", dir.join(name).display());
        for name in CHANNELS {
            put(&["-chardev", &channel(name)]);
        }
        for (name, port, irq, index) in [("com1", "0x3f8", 4, 0), ("com2", "0x2f8", 3, 1)] {
            put(&[
                "-device",
                &format!("isa-serial,chardev={name},iobase={port},irq={irq},index={index}"),
            ]);
        }
        if self.slots {
            // The bus's own registers say what goes and comes.
            put(&[
                "-global",
                "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
            ]);
        }
        let vectors = |most| match self.virtio {
            Some(Virtio::Lines) => 0,
            _ => most,
        };
        let mut count = 0;
        let mut device = |kind: &str, rest: &str, entries| match self.chipset {
            Chipset::Microvm => {
                put(&["-device", &format!("{kind}-device{rest}")]);
                count += 1;
            }
            Chipset::Q35 => {
                let mut place = String::new();
                if self.slots {
                    let port =
                        format!("pcie-root-port,id=slot{count},chassis={count},slot={count}");
                    put(&["-device", &port]);
                    place = format!(",bus=slot{count}");
                }
                count += 1;
                // One without a table has its line, and no word for that.
                let vectors = match entries {
                    0 => String::new(),
                    entries => format!(",vectors={}", vectors(entries)),
                };
                let words = format!("{kind}-pci,disable-legacy=on{vectors}{rest}{place}");
                put(&["-device", &words]);
            }
        };
        if self.virtio.is_some() {
            device("virtio-serial", ",id=console,max_ports=4", 5);
            device("virtio-rng", ",id=rng", 1);
        }
        if self.balloon {
            device("virtio-balloon", ",id=balloon,deflate-on-oom=on", 0);
        }
        for Share { tag, .. } in &self.shares {
            let rest = format!(",id={tag}-device,fsdev={tag},mount_tag={tag}");
            device("virtio-9p", &rest, 1);
        }
        if let Some(audio) = &self.audio {
            let path = audio.display().to_string().replace(',', ",,");
            let file = format!("{WAV},path={path}");
            put(&["-audiodev", &file]);
            let mut place = String::new();
            if self.slots {
                put(&["-device", "pcie-root-port,id=slot-sound,chassis=99,slot=99"]);
                place.push_str(",bus=slot-sound");
            }
            for device in self.card.devices(&place) {
                put(&["-device", &device]);
            }
        }
        let mut places = String::new();
        if self.chipset == Chipset::Microvm && self.acpi && !self.foreign {
            // Without tables QEMU says by itself where they are. It fills its places from the last one on.
            for place in (0..MICROVM_PLACES).rev().take(count) {
                let (at, line) = (0xfeb0_0000u32 + 512 * place, MICROVM_LINE + place);
                places += &format!(" virtio_mmio.device=512@{at:#x}:{line}");
            }
        }
        for Share { tag, directory } in &self.shares {
            // A comma ends a value for QEMU; two are one.
            let path = directory.display().to_string().replace(',', ",,");
            let server = format!("local,id={tag},path={path},security_model=none,multidevs=remap");
            put(&["-fsdev", &server]);
        }
        for (nr, name) in (1..).zip(self.port_channels()) {
            put(&["-chardev", &channel(name)]);
            let port = format!(
                "virtserialport,bus=console.0,nr={nr},chardev={name},name={name},id={name}"
            );
            put(&["-device", &port]);
        }
        match &self.log {
            Log::File(path) => put(&["-chardev", &format!("file,id=log,path={}", path.display())]),
            Log::Stderr => put(&["-chardev", &channel("log")]),
        }
        if self.monitor {
            put(&["-chardev", &channel(MONITOR)]);
            put(&["-mon", &format!("chardev={MONITOR},mode=control")]);
        }
        if self.still {
            put(&["-S"]);
        }
        put(&["-device", "isa-debugcon,iobase=0xe9,chardev=log"]);
        put(&["-device", "isa-debugcon,iobase=0xe8,chardev=control"]);
        put(&["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
        // Instruction counts must repeat, and gdb needs the addresses of the file.
        let fixed = self.icount.is_some() || self.extra.iter().any(|word| word == "-s");
        let fixed = if fixed && !self.foreign {
            " nokaslr"
        } else {
            ""
        };
        put(&["-append", &format!("{}{fixed}{places}", self.append)]);
        words.extend(["-kernel".into(), self.kernel.clone().into_os_string()]);
        words.extend(["-initrd".into(), root.as_os_str().to_owned()]);
        words.extend(self.extra.iter().cloned());
        Ok(words)
    }
}

/// Channels between QEMU and us, but for the log and the monitor.
const CHANNELS: [&str; 3] = ["com1", "com2", "control"];
const MONITOR: &str = "monitor";
/// Places for devices on QEMU's minimal machine with tables, and the line of the first one.
const MICROVM_PLACES: u32 = 24;
const MICROVM_LINE: u32 = 24;
/// The ports of the first process's streams.
const PORTS: [&str; 3] = ["stdin", "stdout", "stderr"];

/// Whether the host's CPU can run guests itself and lets us.
fn host_virtualizes() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| {
            line.split_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm")
        });
    has && std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_comes_with_a_machine_that_stands_still() {
        let mut machine = Machine::new(Path::new("kernel"));
        let words = |machine: &Machine| {
            let words = machine.words(Path::new("root"), Path::new("/tmp/s"));
            words
                .expect("words")
                .join(" ".as_ref())
                .into_string()
                .expect("text")
        };
        assert!(!words(&machine).contains(" -S"));
        machine.monitor = true;
        machine.still = true;
        let with =
            "-chardev socket,id=monitor,path=/tmp/s/monitor -mon chardev=monitor,mode=control -S ";
        assert!(words(&machine).contains(with), "{}", words(&machine));
    }
}
