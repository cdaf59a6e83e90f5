//! The part of a card that is its driver's.
//!
//! *Interface*: a driver implements [`Works`] for the card that it has found. The methods of a direction are
//! called by one thread at a time, and none of those of a direction that is not there.

use super::Pace;
use crate::odd::Odd;
use quaject::assembly::Assembly;
use quaject::class::Header;

/// The way that frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the card.
    Out,
    /// From it.
    In,
}

/// The number of ways.
pub const DIRECTIONS: usize = 2;

impl Way {
    /// Both, by their numbers.
    pub const ALL: [Way; DIRECTIONS] = [Way::Out, Way::In];
}

/// A direction that the handler serves: what `port` of `from` is linked to gets blocks of a period.
#[derive(Clone, Copy)]
pub struct Served {
    /// Its pace.
    pub pace: Pace,
    /// The quaject.
    pub from: &'static Header,
    /// The number of its callout.
    pub port: usize,
}

/// A card's directions.
pub trait Works: Send + Sync {
    /// The name that a mixer shows.
    fn kind(&self) -> &'static str;

    /// Frames in a second, of both directions.
    fn rate(&self) -> u32;

    /// Frames that it may have taken and not sounded yet.
    fn behind(&self) -> u32;

    /// Whether it has that direction.
    fn has(&self, way: Way) -> bool;

    /// Prepares a direction that stands still: along silence first, as far ahead as `pace` says; or along
    /// empty buffers.
    ///
    /// # Errors
    /// [`Odd::Gone`].
    fn begin(&self, way: Way, pace: Pace) -> Result<(), Odd>;

    /// Starts the direction, after [`Works::begin`] and when the handler serves it.
    fn go(&self, way: Way);

    /// Stops it; it interrupts no more. Also of one that is not there.
    fn end(&self, way: Way);

    /// Frames ever given to the card, or taken from it; none where that direction is not there.
    fn passed(&self, way: Way) -> u64;

    /// Frames that the card has been given and has not taken yet, about, while it plays at `pace`.
    fn in_hand(&self, pace: Pace) -> u64;

    /// Emits the card's part of the handler for the directions that are served. May change rax, rcx and rdx.
    fn emit(&self, a: &mut Assembly, served: [Option<Served>; DIRECTIONS]);
}
