//! The clients of the sound card, and the routines that are generated for exactly these.
//!
//! *Interface*: [`start`] at boot; [`with_clients`] adds clients and changes them, under the monitor;
//! [`request_removal`] has a client removed, from any context; [`pace`] is the card's present pace.
//! [`for_each_player`] and [`for_each_recorder`] are for listings.
//!
//! The card moves at the shortest period that a client asks for, and is filled no further ahead than the
//! client with the smallest ring can follow. Without clients the card is stopped and its interrupt handler
//! has no per-client code.
//!
//! Source: dissertation, section 3.3.3.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use device::Unusable;
use device::sound::{Card, Client, Enabled, GET_SAMPLE, PUT_SAMPLE, Pace};
use quaject::class::{Ref, create};
use quaject::interfacer::link;
use quaject::mix::{MOST, Mixer, Splitter, mix, split};
use sync::{Monitor, WaitList, epoch};
use vm::fallible::{try_push, try_slice};

use crate::stream::{PlayStream, RecordStream, no_memory};

/// The clients, and what serves them.
#[derive(Default)]
pub struct CardClients {
    players: Vec<Arc<PlayStream>>,
    recorders: Vec<Arc<RecordStream>>,
    mixer: Option<Ref<Mixer>>,
    splitter: Option<Ref<Splitter>>,
}

static DESK: Monitor<CardClients> = Monitor::new(CardClients {
    players: Vec::new(),
    recorders: Vec::new(),
    mixer: None,
    splitter: None,
});

/// Period and periods ahead of the card's output; 0 while it stands still.
static PACE: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// Calls `f` with the clients, under the monitor.
pub fn with_clients<R>(f: impl FnOnce(&mut CardClients) -> R) -> R {
    // Bound: generating a mixing routine and a handler, at most 16 clients each.
    f(&mut DESK.lock())
}

/// Clients have gone, and have not been taken out yet.
static LEAVING: AtomicBool = AtomicBool::new(false);
static LEFT: WaitList = WaitList::new();

/// The client of `closed` has gone. From anywhere: the desk's thread removes it, since a description may end
/// in the middle of any change of links.
pub fn request_removal(closed: &AtomicBool) {
    closed.store(true, Ordering::Release);
    LEAVING.store(true, Ordering::SeqCst);
    LEFT.wake_all();
}

/// Starts the desk's thread. ENOMEM.
pub fn start() -> Result<()> {
    let settle = |_| loop {
        LEFT.wait_until(|| {
            thread::safe_point();
            LEAVING.swap(false, Ordering::SeqCst).then_some(())
        });
        with_clients(CardClients::settle);
    };
    (thread::spawn(b"sound", settle, 0).map(drop)).map_err(|_| Errno::ENOMEM)
}

/// The pace at which the card plays.
pub fn pace() -> Option<Pace> {
    let [period, ahead] = [&PACE[0], &PACE[1]].map(|word| word.load(Ordering::Relaxed));
    (period != 0).then_some(Pace { period, ahead })
}

/// Calls `f` with each that plays.
pub fn for_each_player(f: impl FnMut(&Arc<PlayStream>)) {
    DESK.lock().players.iter().for_each(f);
}

/// Calls `f` with each that records.
pub fn for_each_recorder(f: impl FnMut(&Arc<RecordStream>)) {
    DESK.lock().recorders.iter().for_each(f);
}

fn unusable(why: Unusable) -> Errno {
    match why {
        Unusable::Resources => Errno::ENOMEM,
        Unusable::Absent | Unusable::DeviceError(_) => Errno::ENODEV,
    }
}

/// The pace that serves all of `paces`.
fn common(paces: impl Iterator<Item = Pace>) -> Option<Pace> {
    paces.reduce(|one, other| {
        let period = one.period.min(other.period);
        let ahead = (one.period * one.ahead).min(other.period * other.ahead) / period;
        let ahead = ahead.clamp(2, device::sound::MOST_AHEAD);
        Pace { period, ahead }
    })
}

/// The clients as the card has them.
fn as_clients<C: Client + 'static>(of: &[Arc<C>]) -> Result<Arc<[Arc<dyn Client>]>> {
    let mut clients: Vec<Arc<dyn Client>> = Vec::new();
    for client in of {
        try_push(&mut clients, client.clone())?;
    }
    try_slice(&clients)
}

impl CardClients {
    /// One more plays. EBUSY, ENOMEM, ENODEV.
    pub fn add_player(&mut self, player: &Arc<PlayStream>) -> Result<()> {
        self.settle();
        if self.players.len() >= MOST {
            return Err(Errno::EBUSY);
        }
        self.make_parts()?;
        try_push(&mut self.players, player.clone())?;
        let plugged = self.replug_players();
        if plugged.is_err() {
            self.players.pop();
        }
        plugged
    }

    /// Takes out those whose client or card has gone.
    fn settle(&mut self) {
        let (players, recorders) = (self.players.len(), self.recorders.len());
        let closed = |closed: &AtomicBool| closed.load(Ordering::Acquire);
        self.players
            .retain(|player| !closed(&player.closed) && !player.card.is_gone());
        self.recorders
            .retain(|recorder| !closed(&recorder.closed) && !recorder.card.is_gone());
        // Without room for code the old routines go on, and have all that they name: a ring that stays
        // empty, and one that stays full.
        if self.players.len() < players {
            let _stays = self.replug_players();
        }
        if self.recorders.len() < recorders {
            let _stays = self.replug_recorders();
        }
    }

    /// Calls `f` while no handler reads the ring of `player`. ENOMEM, ENODEV.
    pub fn without_player<R>(
        &mut self,
        player: &Arc<PlayStream>,
        f: impl FnOnce() -> R,
    ) -> Result<R> {
        let voices = self
            .players
            .iter()
            .filter(|other| !Arc::ptr_eq(other, player));
        self.mix(&player.card, voices)?;
        // Bound: a grace period, asleep, when a player throws its frames away.
        epoch::grace();
        let result = f();
        self.replug_players()?;
        Ok(result)
    }

    /// The players have changed. ENOMEM, ENODEV.
    pub fn replug_players(&self) -> Result<()> {
        let Some(first) = self.players.first() else {
            return self.stop_playing();
        };
        let card = &first.card;
        self.mix(card, self.players.iter())?;
        let paces = self
            .players
            .iter()
            .map(|player| player.how.pace(card.rate()));
        let Some(pace) = common(paces) else {
            return Ok(());
        };
        let clients = as_clients(&self.players)?;
        card.play(Some(Enabled { pace, clients }))
            .map_err(unusable)?;
        PACE[0].store(pace.period, Ordering::Relaxed);
        PACE[1].store(pace.ahead, Ordering::Relaxed);
        Ok(())
    }

    fn stop_playing(&self) -> Result<()> {
        PACE[0].store(0, Ordering::Relaxed);
        match device::registry::sound(device::sound::NAME) {
            Some(card) => card.play(None).map_err(unusable),
            None => Ok(()),
        }
    }

    /// Has the mixing routine generated for `players`, and the handler with it.
    fn mix<'a>(
        &self,
        card: &Card,
        players: impl Iterator<Item = &'a Arc<PlayStream>>,
    ) -> Result<()> {
        let mixer = self.mixer.as_ref().ok_or(Errno::ENODEV)?;
        let mut voices = Vec::new();
        for player in players {
            try_push(&mut voices, player.voice.clone())?;
        }
        mixer.set(try_slice(&voices)?).map_err(no_memory)?;
        let linked = link(card.da(), GET_SAMPLE, mix(mixer));
        linked.map(drop).map_err(no_memory)
    }

    /// One more records. EBUSY, ENOMEM, ENODEV.
    pub fn add_recorder(&mut self, recorder: &Arc<RecordStream>) -> Result<()> {
        self.settle();
        if self.recorders.len() >= MOST {
            return Err(Errno::EBUSY);
        }
        self.make_parts()?;
        try_push(&mut self.recorders, recorder.clone())?;
        let plugged = self.replug_recorders();
        if plugged.is_err() {
            self.recorders.pop();
        }
        plugged
    }

    /// The recorders have changed. ENOMEM, ENODEV.
    pub fn replug_recorders(&self) -> Result<()> {
        let Some(first) = self.recorders.first() else {
            return match device::registry::sound(device::sound::NAME) {
                Some(card) => card.record(None).map_err(unusable),
                None => Ok(()),
            };
        };
        let card = &first.card;
        let splitter = self.splitter.as_ref().ok_or(Errno::ENODEV)?;
        let mut ears = Vec::new();
        for recorder in &self.recorders {
            try_push(&mut ears, recorder.ear.clone())?;
        }
        splitter.set(try_slice(&ears)?).map_err(no_memory)?;
        link(card.ad(), PUT_SAMPLE, split(splitter)).map_err(no_memory)?;
        let paces = self
            .recorders
            .iter()
            .map(|recorder| recorder.how.pace(card.rate()));
        let Some(pace) = common(paces) else {
            return Ok(());
        };
        let clients = as_clients(&self.recorders)?;
        card.record(Some(Enabled { pace, clients }))
            .map_err(unusable)
    }

    /// Makes mixer and splitter, if they are not there. ENOMEM.
    fn make_parts(&mut self) -> Result<()> {
        if self.mixer.is_none() {
            self.mixer = Some(create::<Mixer>(()).map_err(no_memory)?);
        }
        if self.splitter.is_none() {
            self.splitter = Some(create::<Splitter>(()).map_err(no_memory)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clients_have_the_shortest_period_and_the_least_ahead() {
        let pace = |period, ahead| Pace { period, ahead };
        let of = |paces: &[Pace]| {
            let common = common(paces.iter().copied());
            common.map(|pace| (pace.period, pace.ahead))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[pace(256, 4)]), Some((256, 4)));
        // 512 frames ahead are four periods of 128.
        for paces in [[pace(128, 8), pace(256, 2)], [pace(256, 2), pace(128, 8)]] {
            assert_eq!(of(&paces), Some((128, 4)));
        }
        assert_eq!(of(&[pace(256, 2), pace(128, 2)]), Some((128, 2)));
    }
}
