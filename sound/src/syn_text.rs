//! The text about sound in `/syn`: the card's rate, and each client with its fill and flow.
//!
//! *Interface*: [`show`], which [`file::gauge`] calls for it.

use core::fmt::{self, Write};
use device::sound::FRAME;
use file::gauge::Gauge;

use crate::card_clients;

/// One line for the pace, and one for each client: frames in its ring and the size of it, frames ever put and
/// got, and how often it ran dry or full.
pub fn show(out: &mut dyn Write) -> fmt::Result {
    if let Some(pace) = card_clients::pace() {
        writeln!(out, "period {}, {} ahead", pace.period, pace.ahead)?;
    }
    let mut shown = Ok(());
    let mut line = |kind, gauge: &dyn Gauge, rate, period| {
        let xruns = gauge.xruns().unwrap_or(0);
        let (flow, frames) = (gauge.flow(), |bytes: usize| bytes / FRAME);
        let [put, got] = [flow.put, flow.got].map(|bytes| bytes / FRAME as u64);
        let (held, size) = (frames(flow.held()), frames(gauge.size()));
        let told = writeln!(
            out,
            "{kind} {rate}/s, period {period}: {held} of {size} frames, {put} in, {got} out, {xruns} xruns"
        );
        shown = shown.and(told);
    };
    card_clients::for_each_player(|player| {
        line("player", &**player, player.how.rate, player.how.period);
    });
    card_clients::for_each_recorder(|recorder| {
        line(
            "recorder",
            &**recorder,
            recorder.how.rate,
            recorder.how.period,
        );
    });
    shown
}
