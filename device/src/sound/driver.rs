//! The part of a card that is its driver's.
//!
//! *Interface*: a driver implements [`CardDriver`] for the card that it has found. The methods of a direction
//! are called by one thread at a time, and none of those of a direction that is not there.

use super::Pace;
use crate::error::DeviceError;
use quaject::assembly::Assembly;
use quaject::class::Header;

/// The way that frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the card.
    Out,
    /// From it.
    In,
}

/// The number of ways.
pub const DIRECTIONS: usize = 2;

impl Direction {
    /// Both, by their numbers.
    pub const ALL: [Direction; DIRECTIONS] = [Direction::Out, Direction::In];
}

/// A direction that the handler serves: what `port` of `from` is linked to gets blocks of a period.
#[derive(Clone, Copy)]
pub struct ServedDirection {
    /// Its pace.
    pub pace: Pace,
    /// The quaject.
    pub from: &'static Header,
    /// The number of its callout.
    pub port: usize,
}

/// A card's directions.
pub trait CardDriver: Send + Sync {
    /// The name that a mixer shows.
    fn kind(&self) -> &'static str;

    /// Frames in a second, of both directions.
    fn rate(&self) -> u32;

    /// Frames that it may have taken and not sounded yet.
    fn behind(&self) -> u32;

    /// Whether it has that direction.
    fn has(&self, way: Direction) -> bool;

    /// Prepares a direction that stands still: along silence first, as far ahead as `pace` says; or along
    /// empty buffers.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    fn begin(&self, way: Direction, pace: Pace) -> Result<(), DeviceError>;

    /// Starts the direction, after [`CardDriver::begin`] and when the handler serves it.
    fn go(&self, way: Direction);

    /// Stops it; it interrupts no more. Also of one that is not there.
    fn end(&self, way: Direction);

    /// Frames ever given to the card, or taken from it; none where that direction is not there.
    fn passed(&self, way: Direction) -> u64;

    /// Frames that the card has been given and has not taken yet, about, while it plays at `pace`.
    fn in_hand(&self, pace: Pace) -> u64;

    /// Emits the card's part of the handler for the directions that are served. May change rax, rcx and rdx.
    fn emit(&self, a: &mut Assembly, served: [Option<ServedDirection>; DIRECTIONS]);
}
