//! A codec's widgets, and the ways between its pins and its converters.
//!
//! *Interface*: [`Codec::new`] finds a codec's audio; [`find`] looks for a way to play, and one to record, by
//! what it says of itself; [`Found::set`] opens them: power, connections, amplifiers at their middle (0 dB),
//! pins, formats. A codec is not believed: counts and lists are cut, and each widget is looked at once.
//! Source: High Definition Audio Specification 1.0a, chapter 7.

use super::commands::Asks;
use super::format::{Rates, format};
use crate::error::DeviceError;
use core::ops::Range;

/// Numbers of widgets that a command can name are below this one.
const NODES: usize = 128;
/// Widgets of a way, at most.
const LONGEST: usize = 8;

/// Commands: a parameter; a list of connections; states; and settings.
const PARAMETER: u32 = 0xf0000;
const CONNECTIONS: u32 = 0xf0200;
const POWER_STATE: u32 = 0xf0500;
const SENSE: u32 = 0xf0900;
const CONFIGURATION: u32 = 0xf1c00;
const SET_FORMAT: u32 = 0x20000;
const SET_AMPLIFIER: u32 = 0x30000;
const SET_CONNECTION: u32 = 0x70100;
const SET_POWER: u32 = 0x70500;
const SET_STREAM: u32 = 0x70600;
const SET_PIN: u32 = 0x70700;
const SET_EXTERNAL: u32 = 0x70c00;

/// Parameters.
const NODES_BELOW: u32 = 0x04;
const GROUP_KIND: u32 = 0x05;
const WIDGET: u32 = 0x09;
const SIZES_AND_RATES: u32 = 0x0a;
const PIN: u32 = 0x0c;
const INPUT_AMPLIFIER: u32 = 0x0d;
const LIST_LEN: u32 = 0x0e;
const OUTPUT_AMPLIFIER: u32 = 0x12;

/// The kind of a group of functions: audio.
const AUDIO: u32 = 1;

/// Kinds of widgets.
const CONVERTER_OUT: u32 = 0;
const CONVERTER_IN: u32 = 1;
const MIXER: u32 = 2;
const SELECTOR: u32 = 3;
const IS_PIN: u32 = 4;

/// In a widget's description.
const HAS_INPUT_AMPLIFIER: u32 = 1 << 1;
const HAS_OUTPUT_AMPLIFIER: u32 = 1 << 2;
const OWN_AMPLIFIERS: u32 = 1 << 3;
const OWN_FORMATS: u32 = 1 << 4;
const HAS_LIST: u32 = 1 << 8;
const DIGITAL: u32 = 1 << 9;
const HAS_POWER: u32 = 1 << 10;

/// In a pin's: it knows whether something is plugged in; it drives headphones; ways; a voltage for
/// microphones; an amplifier outside.
const SENSES: u32 = 1 << 2;
const HEADPHONES: u32 = 1 << 3;
const CAN_OUT: u32 = 1 << 4;
const CAN_IN: u32 = 1 << 5;
const VOLTAGE_80: u32 = 1 << 12;
const EXTERNAL: u32 = 1 << 16;

/// Settings of a pin.
const OUT: u32 = 0x40;
const OUT_HEADPHONES: u32 = 0xc0;
const IN: u32 = 0x20;
const IN_VOLTAGE_80: u32 = 0x24;

/// Settings of an amplifier: which of both, and both sides.
const OF_OUTPUT: u32 = 0x8000;
const OF_INPUT: u32 = 0x4000;
const BOTH_SIDES: u32 = 0x3000;

/// The audio of one codec of a card.
pub struct Codec<'a> {
    asks: &'a mut dyn Asks,
    address: u8,
    /// Its group of functions, and the widgets of that.
    group: u8,
    widgets: Range<u8>,
}

/// A widget on a way, and the number of the connection that leads to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub node: u8,
    pub connection: u8,
}

/// A way against the flow: each widget takes its input from the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    steps: [Step; LONGEST],
    len: usize,
}

impl Route {
    /// Its widgets.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.len.min(LONGEST)]
    }
}

/// The ways of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// From the pin to the converter that plays.
    pub output: Route,
    /// From the converter that records to the pin.
    pub input: Option<Route>,
    /// Frames in a second.
    pub rate: u32,
}

/// Finds the rank of a widget that ends a way; None of one that does not.
type Rank<'r, 'a> = &'r mut dyn FnMut(&mut Codec<'a>, u8) -> Result<Option<u8>, DeviceError>;

impl<'a> Codec<'a> {
    /// The codec at `address`, with its audio awake. None: it has none.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn new(asks: &'a mut dyn Asks, address: u8) -> Result<Option<Codec<'a>>, DeviceError> {
        let mut codec = Codec {
            asks,
            address,
            group: 0,
            widgets: 0..0,
        };
        for group in codec.below(0)? {
            if codec.parameter(group, GROUP_KIND)? & 0xff == AUDIO {
                codec.group = group;
                codec.wake(group)?;
                codec.widgets = codec.below(group)?;
                return Ok(Some(codec));
            }
        }
        Ok(None)
    }

    fn ask(&mut self, node: u8, command: u32) -> Result<u32, DeviceError> {
        self.asks.ask(self.address, node, command)
    }

    fn parameter(&mut self, node: u8, which: u32) -> Result<u32, DeviceError> {
        self.ask(node, PARAMETER | which)
    }

    /// The nodes below a node.
    fn below(&mut self, node: u8) -> Result<Range<u8>, DeviceError> {
        let word = self.parameter(node, NODES_BELOW)?;
        let (first, count) = ((word >> 16) as u8, word as u8);
        let end = first.saturating_add(count).min(NODES as u8);
        Ok(first.max(1)..end)
    }

    /// Full power for a node.
    fn wake(&mut self, node: u8) -> Result<(), DeviceError> {
        /// Looks until it is awake.
        const LOOKS: usize = 100;
        self.ask(node, SET_POWER)?;
        for _ in 0..LOOKS {
            if self.ask(node, POWER_STATE)? >> 4 & 0xf == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A widget's description, and its kind.
    fn widget(&mut self, node: u8) -> Result<(u32, u32), DeviceError> {
        let word = self.parameter(node, WIDGET)?;
        Ok((word, word >> 20 & 0xf))
    }

    /// Calls `f` with the number of each connection of `node`, and the node that it leads to.
    fn each_connection(&mut self, node: u8, f: &mut dyn FnMut(u8, u8)) -> Result<(), DeviceError> {
        const LONG: u32 = 1 << 7;
        if self.widget(node)?.0 & HAS_LIST == 0 {
            return Ok(());
        }
        let word = self.parameter(node, LIST_LEN)?;
        let (count, long) = (word & 0x7f, word & LONG != 0);
        let (bits, at_once) = if long { (16, 2) } else { (8, 4) };
        let through = 1u32 << (bits - 1);
        let (mut number, mut last, mut words) = (0u8, 0u32, 0);
        for entry in 0..count {
            if entry % at_once == 0 {
                words = self.ask(node, CONNECTIONS | entry)?;
            }
            let value = words >> (bits * (entry % at_once)) & ((1 << bits) - 1);
            let target = value & !through;
            // An entry can stand for all nodes from the one before it on.
            let first = match value & through != 0 && last < target {
                true => last + 1,
                false => target,
            };
            for node in (first..=target).take(NODES) {
                if let Ok(node) = u8::try_from(node)
                    && self.widgets.contains(&node)
                {
                    f(number, node);
                }
                number = number.saturating_add(1);
            }
            last = target;
        }
        Ok(())
    }

    /// The shortest way from `start` against the flow to an end of the least rank. It leads through mixers
    /// and selectors.
    fn route(&mut self, start: u8, rank: Rank<'_, 'a>) -> Result<Option<Route>, DeviceError> {
        /// A node that was found: the place of the one that it was found from, and the connection to it.
        #[derive(Clone, Copy, Default)]
        struct Seen {
            node: u8,
            from: u8,
            connection: u8,
        }
        let mut queue = [Seen::default(); NODES];
        let mut seen = [false; NODES];
        queue[0].node = start;
        seen[usize::from(start) % NODES] = true;
        let (mut len, mut best) = (1, None);
        for at in 0..NODES {
            if at >= len {
                break;
            }
            let node = queue[at].node;
            if at > 0 {
                if let Some(rank) = rank(self, node)? {
                    if best.is_none_or(|(least, _)| rank < least) {
                        best = Some((rank, at));
                    }
                    continue;
                }
                if !matches!(self.widget(node)?.1, MIXER | SELECTOR) {
                    continue;
                }
            }
            self.each_connection(node, &mut |connection, node| {
                let seen = &mut seen[usize::from(node) % NODES];
                if !*seen && len < NODES {
                    *seen = true;
                    let from = at as u8;
                    queue[len] = Seen {
                        node,
                        from,
                        connection,
                    };
                    len += 1;
                }
            })?;
        }
        let Some((_, end)) = best else {
            return Ok(None);
        };
        // From the end to the start, and then the other way round.
        let mut route = Route::default();
        let (mut place, mut leads) = (end, 0);
        loop {
            let Seen {
                node,
                from,
                connection,
            } = queue[place];
            if route.len == LONGEST {
                return Ok(None);
            }
            route.steps[route.len] = Step {
                node,
                connection: leads,
            };
            route.len += 1;
            if place == 0 {
                break;
            }
            (place, leads) = (usize::from(from), connection);
        }
        route.steps[..route.len].reverse();
        Ok(Some(route))
    }

    /// The rates of a converter, if `node` is one of that kind that is not digital.
    fn converter(&mut self, node: u8, wanted: u32) -> Result<Option<Rates>, DeviceError> {
        let (widget, kind) = self.widget(node)?;
        if kind != wanted || widget & DIGITAL != 0 {
            return Ok(None);
        }
        let own = match widget & OWN_FORMATS {
            0 => 0,
            _ => self.parameter(node, SIZES_AND_RATES)?,
        };
        let word = match own {
            0 => self.parameter(self.group, SIZES_AND_RATES)?,
            own => own,
        };
        Ok(Rates::of(word))
    }

    /// How well a pin serves, the smaller the better; None of what is no such pin. One where something is
    /// plugged in comes first, then those that always have something, then the rest; each in that order.
    fn pin(&mut self, node: u8, can: u32, order: [u32; 3]) -> Result<Option<u8>, DeviceError> {
        const NOTHING: u32 = 1;
        const FIXED: u32 = 2;
        const PRESENT: u32 = 1 << 31;
        let (widget, kind) = self.widget(node)?;
        if kind != IS_PIN || widget & DIGITAL != 0 {
            return Ok(None);
        }
        let able = self.parameter(node, PIN)?;
        let configuration = self.ask(node, CONFIGURATION)?;
        let attached = configuration >> 30;
        if able & can == 0 || attached == NOTHING {
            return Ok(None);
        }
        let senses = able & SENSES != 0 && attached != FIXED;
        let plugged = senses && self.ask(node, SENSE)? & PRESENT != 0;
        let device = configuration >> 20 & 0xf;
        let usual = order.iter().position(|known| *known == device);
        let usual = usual.unwrap_or(order.len()) as u8;
        Ok(Some(match attached {
            _ if plugged => usual,
            FIXED => 4 + usual,
            _ => 8 + usual,
        }))
    }

    /// The way to play, and the rates of its converter.
    fn output(&mut self) -> Result<Option<(Route, Rates)>, DeviceError> {
        /// A line, a loudspeaker, headphones.
        const ORDER: [u32; 3] = [0, 1, 2];
        let mut best: Option<(u8, Route, Rates)> = None;
        for pin in self.widgets.clone() {
            let Some(rank) = self.pin(pin, CAN_OUT, ORDER)? else {
                continue;
            };
            if best.is_some_and(|(least, ..)| least <= rank) {
                continue;
            }
            let mut end = |codec: &mut Codec<'a>, node| {
                let rates = codec.converter(node, CONVERTER_OUT)?;
                Ok(rates.map(|_| 0))
            };
            let Some(route) = self.route(pin, &mut end)? else {
                continue;
            };
            let end = route.steps().last().map_or(0, |step| step.node);
            if let Some(rates) = self.converter(end, CONVERTER_OUT)? {
                best = Some((rank, route, rates));
            }
        }
        Ok(best.map(|(_, route, rates)| (route, rates)))
    }

    /// The way to record, at some of `rates`.
    fn input(&mut self, rates: Rates) -> Result<Option<(Route, Rates)>, DeviceError> {
        /// A microphone, a line, another side of a line.
        const ORDER: [u32; 3] = [0xa, 0x8, 0x9];
        for converter in self.widgets.clone() {
            let own = self.converter(converter, CONVERTER_IN)?;
            let Some(common) = own.and_then(|own| own.with(rates)) else {
                continue;
            };
            let mut end = |codec: &mut Codec<'a>, node| codec.pin(node, CAN_IN, ORDER);
            if let Some(route) = self.route(converter, &mut end)? {
                return Ok(Some((route, common)));
            }
        }
        Ok(None)
    }

    /// Opens the amplifiers of `node` at their middle: that of its output, and that of its input
    /// `connection`.
    fn amplify(&mut self, node: u8, connection: u8) -> Result<(), DeviceError> {
        let (widget, _) = self.widget(node)?;
        let from = match widget & OWN_AMPLIFIERS {
            0 => self.group,
            _ => node,
        };
        if widget & HAS_OUTPUT_AMPLIFIER != 0 {
            let middle = self.parameter(from, OUTPUT_AMPLIFIER)? & 0x7f;
            self.ask(node, SET_AMPLIFIER | OF_OUTPUT | BOTH_SIDES | middle)?;
        }
        if widget & HAS_INPUT_AMPLIFIER != 0 {
            let middle = self.parameter(from, INPUT_AMPLIFIER)? & 0x7f;
            let which = u32::from(connection & 0xf) << 8;
            self.ask(node, SET_AMPLIFIER | OF_INPUT | BOTH_SIDES | which | middle)?;
        }
        Ok(())
    }

    /// Opens a way.
    fn open(&mut self, route: &Route) -> Result<(), DeviceError> {
        for (place, step) in route.steps().iter().enumerate() {
            let (widget, kind) = self.widget(step.node)?;
            if widget & HAS_POWER != 0 {
                self.wake(step.node)?;
            }
            let leads_on = place + 1 < route.len;
            if leads_on && kind != MIXER && self.parameter(step.node, LIST_LEN)? & 0x7f > 1 {
                self.ask(step.node, SET_CONNECTION | u32::from(step.connection))?;
            }
            // The one of the last widget is 0, its own.
            self.amplify(step.node, step.connection)?;
        }
        Ok(())
    }

    fn set_converter(&mut self, node: u8, tag: u8, format: u16) -> Result<(), DeviceError> {
        self.ask(node, SET_FORMAT | u32::from(format))?;
        self.ask(node, SET_STREAM | u32::from(tag) << 4)?;
        Ok(())
    }

    /// Sets a pin as `how` says, by what it can.
    fn set_pin(&mut self, node: u8, how: impl Fn(u32) -> u32) -> Result<(), DeviceError> {
        let able = self.parameter(node, PIN)?;
        self.ask(node, SET_PIN | how(able))?;
        if able & EXTERNAL != 0 {
            self.ask(node, SET_EXTERNAL | 2)?;
        }
        Ok(())
    }
}

/// The ways of `codec`, if it can play.
///
/// # Errors
/// [`DeviceError::Gone`].
pub fn find(codec: &mut Codec) -> Result<Option<Found>, DeviceError> {
    let Some((output, rates)) = codec.output()? else {
        return Ok(None);
    };
    let input = codec.input(rates)?;
    let common = input.map_or(rates, |(_, common)| common);
    Ok(Some(Found {
        output,
        input: input.map(|(route, _)| route),
        rate: common.best(),
    }))
}

impl Found {
    /// Opens the ways; the streams have these tags.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn set(&self, codec: &mut Codec, output: u8, input: u8) -> Result<(), DeviceError> {
        let format = format(self.rate).ok_or(DeviceError::Fit)?;
        codec.open(&self.output)?;
        if let [pin, .., converter] = self.output.steps() {
            codec.set_converter(converter.node, output, format)?;
            codec.set_pin(pin.node, |able| match able & HEADPHONES {
                0 => OUT,
                _ => OUT_HEADPHONES,
            })?;
        }
        if let Some(route) = &self.input {
            codec.open(route)?;
            if let [converter, .., pin] = route.steps() {
                codec.set_converter(converter.node, input, format)?;
                codec.set_pin(pin.node, |able| match able & VOLTAGE_80 {
                    0 => IN,
                    _ => IN_VOLTAGE_80,
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
