//! The options that describe the machine and the root, shared by `run` and `image`.
//!
//! *Interface*: `Options::parse`. Every wrong word is one clear line and status 2.

use crate::failure::{Failure, Result, USAGE};
use crate::kernel;
use crate::machine::{Accel, Card, Chipset};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Most CPUs that the kernel drives.
const MAX_CPUS: u32 = 8;

/// The text of `cargo xtask run --help`.
pub const HELP: &str = "\
usage: cargo xtask run [options] [-- CMD ARG...]

Boots the kernel. Without CMD: a shell on this terminal (end it with `exit`; three times Ctrl-] within
a second ends the machine). With CMD: runs it in the guest with standard input, output and error
connected, and exits with its status. CMD with a slash is a program of the host, which is put into
the guest; a bare name or a path that the guest has is the guest's.

  --cpus N            CPUs, 1 to 8 (1)
  --mem SIZE          memory, such as 16M or 1G (256M, and more for a large root)
  --root DIR|CPIO|TAR the guest's root, in place of busybox; archives may be compressed
  --package NAME      put a Debian package and all it needs into the root, with a shell; repeatable
  --add HOST[:GUEST]  put a file or directory into the root (by default at /root/NAME); repeatable
  --music             put the programs of sound into the root (docs/music.md)
  --share HOST[:GUEST]  let the guest read and write a directory of the host, by default at /mnt/NAME;
                      repeatable
  --env NAME=VALUE    put a variable into the environment; repeatable
  --timeout S         end the machine after S seconds, exit 124
  -v, --verbose       the kernel's log on standard error (else in build/kernel.log)
  --machine q35|microvm
  --icount            one instruction is one nanosecond: measurements that repeat exactly
  --accel tcg|kvm|auto
  --mitigations off|auto|all
                      against defects of the processor: nothing, what it needs (auto), whatever it can
  --kernel FILE       boot this kernel, do not build one
  --quick             build the kernel quickly: what has changed, with few optimizations (to try changes)
  --append WORDS      more words for the kernel's command line (docs/run-contract.md)
  --gdb               wait for gdb on port 1234
  --disk IMG          attach a disk
  --audio FILE.wav    attach a sound card; what is played goes into FILE.wav
  --card ac97|hda     the kind of that card (ac97)
  --cd FILE           a disc in /dev/cd: a WAV of 44,100 stereo frames of 16 bits a second, or such frames
  --display           attach a display and show it
";

/// The wishes of the command line.
pub struct Options {
    /// CPUs.
    pub cpus: u32,
    /// `--mem`, in bytes; none: what the root wants.
    pub memory: Option<u64>,
    /// `--root`.
    pub root: Option<PathBuf>,
    /// `--package`, in order.
    pub packages: Vec<String>,
    /// `--add`, in order.
    pub add: Vec<String>,
    /// `--music`.
    pub music: bool,
    /// `--share`, in order.
    pub share: Vec<String>,
    /// `--env`, in order.
    pub environment: Vec<String>,
    /// `--timeout`.
    pub timeout: Option<Duration>,
    /// `-v`.
    pub verbose: bool,
    /// `--machine`.
    pub chipset: Chipset,
    /// `--icount`.
    pub icount: bool,
    /// `--accel`.
    pub accel: Accel,
    /// `--mitigations`.
    pub mitigations: Option<String>,
    /// `--kernel`.
    pub kernel: Option<PathBuf>,
    /// `--quick`.
    pub quick: bool,
    /// `--append`.
    pub append: String,
    /// `--gdb`.
    pub gdb: bool,
    /// `--disk`.
    pub disk: Option<PathBuf>,
    /// `--cd`.
    pub cd: Option<PathBuf>,
    /// `--audio`.
    pub audio: Option<PathBuf>,
    /// `--card`.
    pub card: Card,
    /// `--display`.
    pub display: bool,
    /// `--help`.
    pub help: bool,
    /// The words after `--`.
    pub command: Vec<String>,
}

impl Options {
    /// Reads the words after `run`.
    pub fn parse(words: Vec<OsString>) -> Result<Self> {
        let mut options = Self {
            cpus: 1,
            memory: None,
            root: None,
            packages: Vec::new(),
            add: Vec::new(),
            music: false,
            share: Vec::new(),
            environment: Vec::new(),
            timeout: None,
            verbose: false,
            chipset: Chipset::Q35,
            icount: false,
            accel: Accel::Tcg,
            mitigations: None,
            kernel: None,
            quick: false,
            append: String::new(),
            gdb: false,
            disk: None,
            audio: None,
            card: Card::Ac97,
            cd: None,
            display: false,
            help: false,
            command: Vec::new(),
        };
        // The command is everything after the first `--`, untouched.
        let mut words = words.into_iter();
        let before: Vec<_> = words.by_ref().take_while(|word| word != "--").collect();
        options.command = words.map(|word| text(word, "CMD")).collect::<Result<_>>()?;
        let mut parser = lexopt::Parser::from_args(before);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("cpus") => {
                    options.cpus = text(parser.value()?, "--cpus")?
                        .parse()
                        .ok()
                        .filter(|cpus| (1..=MAX_CPUS).contains(cpus))
                        .ok_or_else(|| {
                            Failure::new(USAGE, format!("--cpus: a number from 1 to {MAX_CPUS}"))
                        })?;
                }
                Long("mem") => {
                    options.memory = Some(memory(&text(parser.value()?, "--mem")?)?);
                }
                Long("root") => options.root = Some(existing(parser.value()?, "--root")?),
                Long("package") => options.packages.push(package(parser.value()?)?),
                Long("add") => options.add.push(text(parser.value()?, "--add")?),
                Long("music") => options.music = true,
                Long("share") => options.share.push(text(parser.value()?, "--share")?),
                Long("env") => {
                    let variable = text(parser.value()?, "--env")?;
                    if !variable.contains('=') {
                        return Err(Failure::new(
                            USAGE,
                            format!("--env {variable}: not NAME=VALUE"),
                        ));
                    }
                    options.environment.push(variable);
                }
                Long("timeout") => {
                    let seconds = text(parser.value()?, "--timeout")?;
                    options.timeout = Some(
                        seconds
                            .parse()
                            .ok()
                            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                            .ok_or_else(|| {
                                Failure::new(
                                    USAGE,
                                    format!("--timeout {seconds}: not a number of seconds"),
                                )
                            })?,
                    );
                }
                Short('v') | Long("verbose") => options.verbose = true,
                Long("machine") => {
                    options.chipset = match text(parser.value()?, "--machine")?.as_str() {
                        "q35" => Chipset::Q35,
                        "microvm" => Chipset::Microvm,
                        other => {
                            return Err(Failure::new(
                                USAGE,
                                format!("--machine {other}: q35 or microvm"),
                            ));
                        }
                    };
                }
                Long("icount") => options.icount = true,
                Long("accel") => {
                    options.accel = match text(parser.value()?, "--accel")?.as_str() {
                        "tcg" => Accel::Tcg,
                        "kvm" => Accel::Kvm,
                        "auto" => Accel::Auto,
                        other => {
                            return Err(Failure::new(
                                USAGE,
                                format!("--accel {other}: tcg, kvm or auto"),
                            ));
                        }
                    };
                }
                Long("mitigations") => {
                    let word = text(parser.value()?, "--mitigations")?;
                    if !["off", "auto", "all"].contains(&word.as_str()) {
                        return Err(Failure::new(
                            USAGE,
                            format!("--mitigations {word}: off, auto or all"),
                        ));
                    }
                    options.mitigations = Some(word);
                }
                Long("kernel") => {
                    let kernel = existing(parser.value()?, "--kernel")?;
                    options.kernel = Some(kernel::bootable(kernel)?);
                }
                Long("quick") => options.quick = true,
                Long("append") => options.append = text(parser.value()?, "--append")?,
                Long("gdb") => options.gdb = true,
                Long("disk") => options.disk = Some(existing(parser.value()?, "--disk")?),
                Long("cd") => options.cd = Some(existing(parser.value()?, "--cd")?),
                Long("audio") => options.audio = Some(parser.value()?.into()),
                Long("card") => {
                    let word = text(parser.value()?, "--card")?;
                    options.card = Card::named(&word).ok_or_else(|| {
                        Failure::new(USAGE, format!("--card {word}: ac97 or hda"))
                    })?;
                }
                Long("display") => options.display = true,
                Short('h') | Long("help") => options.help = true,
                Value(word) => {
                    let word = word.to_string_lossy().into_owned();
                    return Err(Failure::new(
                        USAGE,
                        format!("unexpected `{word}`; a command stands after --"),
                    ));
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

fn text(word: OsString, what: &str) -> Result<String> {
    word.into_string()
        .map_err(|_| Failure::new(USAGE, format!("{what}: not valid UTF-8")))
}

/// A package's name: as Debian has them, so that none is an option of a tool.
fn package(word: OsString) -> Result<String> {
    let name = text(word, "--package")?;
    let good = name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    if good {
        Ok(name)
    } else {
        Err(Failure::new(
            USAGE,
            format!("--package {name}: not the name of a package"),
        ))
    }
}

fn existing(word: OsString, option: &str) -> Result<PathBuf> {
    let path = PathBuf::from(word);
    if path.exists() {
        Ok(path)
    } else {
        Err(Failure::new(
            USAGE,
            format!("{option} {}: no such file", path.display()),
        ))
    }
}

/// A size in bytes: a number, by default of MiB, or with K, M or G.
fn memory(text: &str) -> Result<u64> {
    let wrong = || {
        Failure::new(
            USAGE,
            format!("--mem {text}: a size such as 64M or 1G, at least 16M"),
        )
    };
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 20),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .filter(|size| (16 << 20..=1 << 40).contains(size))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn everything_after_the_dashes_is_the_command() {
        let options = parse("--cpus 2 --mem 16M -- sh -c x -- --cpus").unwrap();
        assert_eq!((options.cpus, options.memory), (2, Some(16 << 20)));
        assert_eq!(options.command, ["sh", "-c", "x", "--", "--cpus"]);
    }

    #[test]
    fn wrong_words_are_usage_failures() {
        for line in [
            "--bogus",
            "-x",
            "sh",
            "--cpus 0",
            "--cpus 9",
            "--cpus",
            "--mem 1M",
            "--mem x",
            "--mem 99999999999G",
            "--accel xen",
            "--machine pc",
            "--mitigations some",
            "--card sb16",
            "--root /no/such",
            "--timeout never",
            "--timeout -1",
            "--env A",
            "--package -y",
            "--package a/b",
        ] {
            let failure = parse(line)
                .err()
                .unwrap_or_else(|| panic!("{line} was accepted"));
            assert_eq!(failure.status, USAGE, "{line}");
            assert!(!failure.message.contains('\n'), "{line}");
        }
    }
}
