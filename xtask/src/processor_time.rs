//! The processor time of a process of the host. A limit in it does not depend on what else the host does.
//!
//! *Interface*: [`used`], [`wanted`].

/// Processor time that `process` has used so far, seconds, to a hundredth; 0 once it has ended.
pub fn used(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    used_by(&stat.unwrap_or_default())
}

/// The same with the time for which its threads waited for a processor, seconds.
pub fn wanted(process: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let each = tasks.into_iter().flatten().flatten().map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat"));
        wanted_by(&text.unwrap_or_default())
    });
    each.sum()
}

/// The processor time in a line of `/proc/PID/stat`, seconds.
fn used_by(line: &str) -> f64 {
    // Fields 14 and 15, in hundredths; the name before may hold blanks.
    let after_name = line.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The times, by a line of `schedstat`, that a thread ran and waited to run, seconds.
fn wanted_by(line: &str) -> f64 {
    let nanoseconds = line.split_whitespace().take(2);
    let sum: f64 = nanoseconds
        .filter_map(|word| word.parse::<f64>().ok())
        .sum();
    sum / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_a_process() {
        let line = "42 (a) b) S 1 42 42 0 -1 4194560 9 0 0 0 150 25 7 7 20 0 5 0 100";
        assert_eq!(used_by(line), 1.75);
        assert_eq!(used_by(""), 0.0);
        assert_eq!(wanted_by("1500000000 500000000 12\n"), 2.0);
        assert_eq!(wanted_by(""), 0.0);
    }
}
