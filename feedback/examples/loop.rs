//! Prints simulated pipelines as the kernel's recorder would (`/syn/trace`), for `cargo xtask plot loop`.
//!
//! *Interface*: `loop step|ramp|jitter|twenty`.

#[path = "../tests/common/pipeline.rs"]
#[allow(dead_code, reason = "the tests need the rest")]
mod pipeline;

use pipeline::{Pipeline, QUANTUM, Stage};

/// Units of a channel in the text.
const ROOM: f64 = 10_000.0;

fn event(time: f64, number: usize, stage: &Stage) {
    let (input, output) = stage.fills;
    let need = 2.0 * input - 1.0 - output.map_or(0.0, |fill| 2.0 * fill - 1.0);
    let output = output.map_or(String::new(), |fill| {
        format!(",w:{:.0}/{ROOM:.0}", fill * ROOM)
    });
    println!(
        "{time:.0} 0 {0} {0} {QUANTUM:.0} {1:.0} {2:.0} {3:.0} {4:.0} r:{5:.0}/{ROOM:.0}{output} stage",
        number + 1,
        stage.quantum,
        stage.settled * 100.0,
        need.clamp(-1.0, 1.0) * 256.0,
        stage.used,
        input * ROOM,
    );
}

/// Lets `rounds` pass and prints their events.
fn print(pipeline: &mut Pipeline, rounds: usize) {
    for _ in 0..rounds {
        pipeline.round_with(|time, number, stage| event(time, number, &stage));
    }
}

fn mark(pipeline: &Pipeline, text: &str) {
    println!("# mark {:.0} {text}", pipeline.now);
}

fn main() {
    let case = std::env::args().nth(1).unwrap_or_default();
    println!("# quanta 1 simulated");
    match case.as_str() {
        "step" => {
            let mut one = Pipeline::new(0.01, &[40.0], 1, 65_536.0, true);
            print(&mut one, 60);
            mark(&one, "three more threads compute");
            one.hogs = 4;
            print(&mut one, 60);
            mark(&one, "they end");
            one.hogs = 1;
            print(&mut one, 60);
        }
        "ramp" => {
            let mut one = Pipeline::new(0.002, &[50.0], 3, 65_536.0, true);
            print(&mut one, 20);
            mark(&one, "the rate grows");
            for step in 0..100 {
                one.rate = 0.002 + 0.000_064 * f64::from(step);
                print(&mut one, 1);
            }
            mark(&one, "and stays");
            print(&mut one, 40);
        }
        "jitter" => {
            let mut one = Pipeline::new(0.006, &[50.0], 3, 65_536.0, true);
            let mut seed = 5u64;
            for _ in 0..150 {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                one.rate = 0.006 * (0.5 + ((seed >> 40) % 1000) as f64 / 1000.0);
                print(&mut one, 1);
            }
        }
        "twenty" => {
            let mut costs = vec![1.0; 20];
            costs[7] = 35.0;
            let mut chain = Pipeline::new(0.01, &costs, 4, 131_072.0, true);
            print(&mut chain, 80);
        }
        _ => {
            eprintln!("usage: loop step|ramp|jitter|twenty");
            std::process::exit(2);
        }
    }
}
