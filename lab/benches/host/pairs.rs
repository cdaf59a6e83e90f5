//! Two things measured in turn, and a row of what came out.
//!
//! *Interface*: [`compare`]. The host's speed changes while it runs, so a sample is compared with its
//! neighbour in time only, and each of the two comes first in every other pair.

/// The values at the end of each quarter.
fn quartiles(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    [1, 2, 3].map(|part| samples[samples.len() * part / 4])
}

/// Takes `n` samples of each and prints a row. A figure is the lower quartile, and the unit says how many
/// percent above it the upper one is; the ratio is the median of the pairs' ratios, peer over ours.
pub fn compare(
    json: bool,
    op: &str,
    n: usize,
    mut peer: impl FnMut() -> f64,
    mut ours: impl FnMut() -> f64,
) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    peer();
    ours();
    for pair in 0..n {
        if pair % 2 == 0 {
            a.push(peer());
            b.push(ours());
        } else {
            b.push(ours());
            a.push(peer());
        }
    }
    let ratios = a.iter().zip(&b).map(|(a, b)| a / b).collect();
    let [_, ratio, _] = quartiles(ratios);
    let [(peer, peer_spread), (ours, ours_spread)] = [a, b].map(|samples| {
        let [low, _, high] = quartiles(samples);
        (low, 100.0 * (high - low) / low)
    });
    let unit = format!("ns +{peer_spread:.0}/{ours_spread:.0} %");
    if json {
        println!(
            "{{\"section\":\"host-sync\",\"op\":\"{op}\",\"unit\":\"{unit}\",\"peer\":{peer:.2},\"ours\":{ours:.2},\"ratio\":{ratio:.4}}}"
        );
    } else {
        println!("{op:<40} {unit:<16} {peer:>9.2} {ours:>9.2} {ratio:>7.3}");
    }
}
