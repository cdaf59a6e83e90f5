//! A copy of the source with mutants in it, and the switch that chooses one.
//!
//! *Interface*: [`Copy::new`]; [`Copy::plant`] puts mutants behind the switch, [`Copy::plant_one`] one that
//! cannot be switched; [`Copy::kernel`] builds. In the kernel the switch is the word `mutant=N` of the
//! command line, in tests on the host the variable `MUTANT`.
//!
//! The switch also tells that the chosen mutant's place was reached: the kernel by a line in its log, a test
//! on the host by a file that the variable `MUTANT_REACHED` names.

use super::list::Mutant;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::{host, kernel};

/// In each room that has a mutant. The word is the kernel's; a test on the host reads it from its
/// environment.
const ROOM: &str = "\
#[cfg(target_os = \"none\")]
pub fn is(number: u32) -> bool {
    unsafe extern \"C\" {
        safe static MUTANT: core::sync::atomic::AtomicU32;
        safe fn mutant_reached();
    }
    let chosen = MUTANT.load(core::sync::atomic::Ordering::Relaxed) == number;
    if chosen {
        mutant_reached();
    }
    chosen
}
#[cfg(not(target_os = \"none\"))]
extern crate std;
#[cfg(not(target_os = \"none\"))]
pub fn is(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    static REACHED: std::sync::Once = std::sync::Once::new();
    let read = || std::env::var(\"MUTANT\").ok().and_then(|text| text.parse().ok());
    let chosen = *CHOSEN.get_or_init(|| read().unwrap_or(0)) == number;
    if chosen {
        REACHED.call_once(|| {
            if let Some(path) = std::env::var_os(\"MUTANT_REACHED\") {
                let _ = std::fs::write(path, \"reached\");
            }
        });
    }
    chosen
}
";

/// In the kernel itself. The log's port takes bytes in every state that the kernel may be in, so no lock is
/// needed, and a machine that hangs or panics later has told.
const KERNEL: &str = concat!(
    "\
#[unsafe(no_mangle)]
pub static MUTANT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
pub fn choose(line: &str) {
    let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(\"mutant=\"));
    if let Some(number) = word.and_then(|text| text.parse().ok()) {
        MUTANT.store(number, core::sync::atomic::Ordering::Relaxed);
    }
}
#[unsafe(no_mangle)]
pub extern \"C\" fn mutant_reached() {
    static REACHED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
    if REACHED.swap(true, core::sync::atomic::Ordering::Relaxed) {
        return;
    }
    for byte in b\"\\nmutant reached\\n\" {
",
    "        unsafe { core::arch::asm!(\"out 0xe9, al\", in(\"al\") *byte) };\n",
    "\
    }
}
#[allow(dead_code)]
pub fn is(number: u32) -> bool {
    let chosen = MUTANT.load(core::sync::atomic::Ordering::Relaxed) == number;
    if chosen {
        mutant_reached();
    }
    chosen
}
"
);

const MAIN: &str = "kernel/src/lib.rs";
/// Where the kernel chooses: before anything else.
const START: &str = "pub fn boot(suites: &'static Suites) -> ! {";

/// A copy of the project's source.
pub struct Copy {
    root: PathBuf,
    /// Texts that are not the project's.
    changed: BTreeMap<String, String>,
}

impl Copy {
    /// A copy in `build/mutants/NAME`, to be planted.
    pub fn new(name: &str) -> Result<Copy> {
        Ok(Copy {
            root: host::build_dir("mutants")?.join(name),
            changed: BTreeMap::new(),
        })
    }

    fn text(&mut self, file: &str) -> Result<&mut String> {
        if !self.changed.contains_key(file) {
            let text = std::fs::read_to_string(host::project().join(file)).context(file)?;
            self.changed.insert(file.to_owned(), text);
        }
        Ok(self.changed.get_mut(file).expect("it was put there"))
    }

    /// Puts `mutants` behind the switch, by their numbers.
    pub fn plant(&mut self, mutants: &[(usize, &Mutant)]) -> Result<()> {
        let fault = |text| Failure::new(HOST, text);
        let mut places = Vec::new();
        for &(number, mutant) in mutants {
            let place = mutant.place(self.text(&mutant.file)?).map_err(fault)?;
            places.push((mutant.file.clone(), place, number, mutant));
        }
        // From the end of each file on, so that places before stay what they are.
        places.sort_by_key(|(file, place, ..)| (file.clone(), std::cmp::Reverse(place.start)));
        for pair in places.windows(2) {
            if pair[0].0 == pair[1].0 && pair[1].1.end > pair[0].1.start {
                let names = format!("{} and {}", pair[0].3.name, pair[1].3.name);
                return Err(fault(format!("mutants {names} are in each other's text")));
            }
        }
        for (file, place, number, mutant) in &places {
            // The text in that place, so that its line ends and comments stay.
            let text = self.text(file)?;
            let switched = mutant.switched(&text[place.clone()], *number);
            text.replace_range(place.clone(), &switched);
        }
        // Behind all of them: a room's first file gets a line in front.
        for (file, ..) in &places {
            self.add_switch(file)?;
        }
        let main = self.text(MAIN)?;
        let Some(at) = main.find(START) else {
            return Err(fault(format!("{MAIN} has no `{START}`")));
        };
        let choose = "\n    mutant::choose(machine::boot::info().cmdline);";
        main.insert_str(at + START.len(), choose);
        main.push_str("mod mutant;\n");
        self.changed
            .insert("kernel/src/mutant.rs".into(), KERNEL.into());
        Ok(())
    }

    /// The room that `file` is in learns of the switch.
    fn add_switch(&mut self, file: &str) -> Result<()> {
        let room = file.split('/').next().unwrap_or_default();
        let path = format!("{room}/src/mutant.rs");
        if room == "kernel" || self.changed.contains_key(&path) {
            return Ok(());
        }
        let library = self.text(&format!("{room}/src/lib.rs"))?;
        library.insert_str(0, "#![allow(warnings)]\n");
        library.push_str("\npub(crate) mod mutant;\n");
        // Tests that take a file of the room for their own.
        for test in tests(room) {
            let text = self.text(&test)?;
            if text.contains("../src/") {
                text.push_str("\n#[path = \"../src/mutant.rs\"]\nmod mutant;\n");
            }
        }
        self.changed.insert(path, ROOM.into());
        Ok(())
    }

    /// Puts one mutant in the place of what stands there.
    pub fn plant_one(&mut self, mutant: &Mutant) -> Result<()> {
        let text = self.text(&mutant.file)?;
        let place = mutant
            .place(text)
            .map_err(|fault| Failure::new(HOST, fault))?;
        text.replace_range(place, &mutant.new);
        Ok(())
    }

    /// Writes the copy. A file that is there already and the same is left alone, so that what was built of it
    /// stays good; one that the project has no more goes.
    pub fn write(&self) -> Result<()> {
        let files = host::command_output(Command::new("git").args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut texts = BTreeMap::new();
        for file in files.lines() {
            // A file that is deleted but not yet committed.
            if let Ok(bytes) = std::fs::read(host::project().join(file)) {
                texts.insert(self.root.join(file), bytes);
            }
        }
        for (file, text) in &self.changed {
            texts.insert(self.root.join(file), text.clone().into_bytes());
        }
        clear(&self.root, &texts)?;
        texts.iter().try_for_each(|(path, bytes)| put(path, bytes))
    }

    /// Builds its kernel.
    pub fn kernel(&self) -> Result<PathBuf> {
        kernel::build_elsewhere(&self.root, &self.target("kernel"))
    }

    /// `cargo` for its tests on the host. The result stands beside what the project builds, which has the
    /// same libraries; with `kind` in a folder of its own.
    pub fn cargo(&self, kind: Option<&str>) -> Command {
        let mut command = host::cargo();
        command.current_dir(&self.root);
        let target = kind.map_or_else(|| host::project().join("target"), |kind| self.target(kind));
        command.env("CARGO_TARGET_DIR", target);
        command
    }

    /// A folder for what is made of `kind`.
    pub fn target(&self, kind: &str) -> PathBuf {
        self.root.with_extension(kind)
    }
}

/// The integration tests of a room.
fn tests(room: &str) -> Vec<String> {
    let directory = format!("{room}/tests");
    let entries = std::fs::read_dir(host::project().join(&directory));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".rs"))
        .map(|name| format!("{directory}/{name}"))
        .collect()
}

/// Removes the files of a folder that are not among `wanted`.
fn clear(folder: &Path, wanted: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    // None yet: nothing to remove.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            clear(&path, wanted)?;
        } else if !wanted.contains_key(&path) {
            std::fs::remove_file(&path).context(path.display())?;
        }
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).context(directory.display())?;
    }
    std::fs::write(path, bytes).context(path.display())
}
