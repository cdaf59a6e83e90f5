//! The text of the kernel's recorder, `/syn/trace`.
//!
//! *Interface*: [`parse`] gives the events, in the order of time; every fault is one line that names its
//! place. Lines `# mark NS TEXT`, which measuring programs add, are moments to be shown.

use std::collections::BTreeSet;

/// How the first line begins.
const HEADING: &str = "# quanta 1 ";

/// A trace.
#[derive(Debug, Default, PartialEq)]
pub struct Trace {
    /// By time.
    pub events: Vec<Event>,
    /// Time in nanoseconds, and what happened.
    pub marks: Vec<(u64, String)>,
    /// Events that the recorder has forgotten.
    pub lost: u64,
}

/// A quantum that was handed out; times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: u64,
    /// The thread's number.
    pub thread: u32,
    /// Its own quantum.
    pub own: u64,
    /// The quantum.
    pub quantum: u64,
    /// CPU time that it had used.
    pub used: u64,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// Its name.
    pub name: String,
}

/// A channel of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Whether the thread writes to it.
    pub writes: bool,
    /// Bytes in it, and bytes that it has room for, which are some.
    pub held: u64,
    /// See `held`.
    pub size: u64,
}

/// Reads a trace.
///
/// # Errors
/// One line that says what is wrong, and where.
pub fn parse(text: &str) -> Result<Trace, String> {
    if !text.starts_with(HEADING) {
        return Err(format!(
            "not a text of /syn/trace, which begins with `{}`",
            HEADING.trim_end()
        ));
    }
    let mut trace = Trace::default();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: String| format!("line {number}: {why}");
        if let Some(comment) = line.strip_prefix('#') {
            remark(comment.trim_start(), &mut trace).map_err(wrong)?;
        } else {
            trace.events.push(event(line).map_err(wrong)?);
        }
    }
    if trace.events.is_empty() {
        return Err(
            "it has no event: the recorder was off, or no thread has used up a quantum".into(),
        );
    }
    // Each processor has its own part of the text.
    trace.events.sort_by_key(|event| event.at);
    Ok(trace)
}

fn remark(comment: &str, trace: &mut Trace) -> Result<(), String> {
    let mut words = comment.splitn(3, ' ');
    match words.next() {
        Some("lost") => {
            trace.lost = trace
                .lost
                .saturating_add(number(&mut words, "number of lost events")?)
        }
        Some("mark") => {
            let at = number(&mut words, "time of a mark")?;
            trace
                .marks
                .push((at, words.next().unwrap_or_default().to_owned()));
        }
        _ => {}
    }
    Ok(())
}

fn event(line: &str) -> Result<Event, String> {
    let mut words = line.splitn(11, ' ');
    let at = number(&mut words, "time")?;
    number::<u32>(&mut words, "processor")?;
    number::<u32>(&mut words, "process")?;
    let thread = number(&mut words, "thread")?;
    let own = number(&mut words, "own quantum")?;
    let quantum = number(&mut words, "quantum")?;
    number::<u32>(&mut words, "settled share")?;
    match words.next() {
        Some("-") => {}
        need => {
            number::<i32>(&mut need.into_iter(), "need")?;
        }
    }
    let used = number(&mut words, "CPU time")?;
    let channels = match words.next() {
        None => return Err("the channels are missing".into()),
        Some("-") => Vec::new(),
        Some(list) => list.split(',').map(channel).collect::<Result<_, _>>()?,
    };
    let name = words.next().ok_or("the name is missing")?.to_owned();
    if own == 0 {
        return Err("the own quantum is 0".into());
    }
    Ok(Event {
        at,
        thread,
        own,
        quantum,
        used,
        channels,
        name,
    })
}

fn number<'a, T: std::str::FromStr>(
    words: &mut impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<T, String> {
    let word = words
        .next()
        .ok_or_else(|| format!("the {what} is missing"))?;
    word.parse().map_err(|_| format!("`{word}` is no {what}"))
}

fn channel(text: &str) -> Result<Channel, String> {
    let wrong = || format!("`{text}` is no channel");
    let (side, fill) = text.split_once(':').ok_or_else(wrong)?;
    let (held, size) = fill.split_once('/').ok_or_else(wrong)?;
    let channel = Channel {
        writes: match side {
            "r" => false,
            "w" => true,
            _ => return Err(wrong()),
        },
        held: held.parse().map_err(|_| wrong())?,
        size: size.parse().map_err(|_| wrong())?,
    };
    if channel.size == 0 {
        Err(wrong())
    } else {
        Ok(channel)
    }
}

impl Trace {
    /// The numbers and names of the threads, those with channels first, then those with the most events.
    pub fn threads(&self) -> Vec<(u32, String)> {
        let numbers: BTreeSet<u32> = self.events.iter().map(|event| event.thread).collect();
        let mut threads: Vec<_> = numbers
            .into_iter()
            .map(|thread| {
                let channels = self.of(thread).any(|event| !event.channels.is_empty());
                let name = self.of(thread).last().map(|event| event.name.clone());
                let order = (!channels, usize::MAX - self.of(thread).count());
                (order, thread, name.unwrap_or_default())
            })
            .collect();
        threads.sort();
        threads
            .into_iter()
            .map(|(_, thread, name)| (thread, name))
            .collect()
    }

    /// The events of a thread.
    pub fn of(&self, thread: u32) -> impl Iterator<Item = &Event> {
        self.events
            .iter()
            .filter(move |event| event.thread == thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# quanta 1 off 2048 events a processor\n# time cpu ...\n\
        30 1 4 5 400000 900000 125 256 12345 r:65536/65536,w:0/10 a b\n# lost 3 0\n# lost 4 1\n\
        20 0 2 2 400000 400000 100 - 7 - sh\n# mark 25 two more threads\n#\n";

    #[test]
    fn a_trace_is_read() {
        let trace = parse(GOOD).unwrap();
        assert_eq!((trace.lost, trace.events.len()), (7, 2));
        assert_eq!(trace.marks, [(25, "two more threads".to_owned())]);
        assert_eq!(
            (trace.events[0].at, trace.events[0].name.as_str()),
            (20, "sh")
        );
        let second = &trace.events[1];
        assert_eq!(
            (second.thread, second.quantum, second.used),
            (5, 900_000, 12_345)
        );
        let channel = |writes, held, size| Channel { writes, held, size };
        assert_eq!(
            second.channels,
            [channel(false, 65_536, 65_536), channel(true, 0, 10)]
        );
        assert_eq!(
            trace.threads(),
            [(5, "a b".to_owned()), (2, "sh".to_owned())]
        );
    }

    #[test]
    fn a_bad_trace_says_where() {
        let with = |line: &str| parse(&format!("# quanta 1 on\n{line}\n")).unwrap_err();
        let good = "20 0 2 2 400000 400000 100 - 7 - sh";
        assert!(parse(&format!("# quanta 1 on\n{good}\n")).is_ok());
        for (text, why) in [
            ("", "begins with"),
            ("hello\n", "begins with"),
            ("# quanta 2 on\n", "begins with"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
        assert!(parse("# quanta 1 on\n").unwrap_err().contains("no event"));
        for (line, why) in [
            ("", "`` is no time"),
            ("20 0 2", "the thread is missing"),
            ("x 0 2 2 400000 400000 100 - 7 - sh", "`x` is no time"),
            ("-1 0 2 2 400000 400000 100 - 7 - sh", "`-1` is no time"),
            ("20 0 2 2 0 400000 100 - 7 - sh", "own quantum is 0"),
            ("20 0 2 2 400000 400000 100 y 7 - sh", "`y` is no need"),
            (
                "20 0 2 2 400000 400000 100 - 7 r:1 sh",
                "`r:1` is no channel",
            ),
            (
                "20 0 2 2 400000 400000 100 - 7 x:1/2 sh",
                "`x:1/2` is no channel",
            ),
            (
                "20 0 2 2 400000 400000 100 - 7 r:1/0 sh",
                "`r:1/0` is no channel",
            ),
            (
                "20 0 2 2 400000 400000 100 - 7 r:1/99999999999999999999 sh",
                "is no channel",
            ),
            ("20 0 2 2 400000 400000 100 - 7 -", "the name is missing"),
            ("20 0 2 2 400000 400000 100 - 7", "the channels are missing"),
            ("# mark soon", "`soon` is no time of a mark"),
            ("# lost", "the number of lost events is missing"),
        ] {
            let said = with(line);
            assert!(
                said.starts_with("line 2: ") && said.contains(why),
                "{line}: {said}"
            );
        }
    }
}
