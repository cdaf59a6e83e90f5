//! Models of codecs: as they are, and as they should not be.

use super::*;
use std::collections::BTreeMap;

/// Rates and sizes: 44,100 and 48,000, 16 bits.
const USUAL: u32 = 1 << 17 | 0x60;

/// A widget of a model.
#[derive(Clone, Default)]
struct Widget {
    kind: u32,
    /// More of its description.
    is: u32,
    list: Vec<u8>,
    pin: u32,
    configuration: u32,
    plugged: bool,
    rates: u32,
    amplifier: u32,
}

/// A codec of widgets from node 2 on. It notes what is set.
struct Model {
    widgets: Vec<Widget>,
    rates: u32,
    /// Node and command, without the lowest eight bits, and the setting.
    set: BTreeMap<(u8, u32), u32>,
    asked: usize,
}

impl Model {
    fn new(widgets: &[Widget]) -> Model {
        Model {
            widgets: widgets.to_vec(),
            rates: USUAL,
            set: BTreeMap::new(),
            asked: 0,
        }
    }
}

impl Asks for Model {
    fn ask(&mut self, codec: u8, node: u8, command: u32) -> Result<u32, DeviceError> {
        assert_eq!(codec, 3);
        self.asked += 1;
        let (verb, low) = (command & !0xff, command & 0xff);
        let wide = matches!(command & 0xf0000, SET_FORMAT | SET_AMPLIFIER);
        if wide || command & 0xf0000 == 0x70000 {
            let (verb, value) = match wide {
                true => (command & !0xfff, command & 0xfff),
                false => (verb, low),
            };
            self.set.insert((node, verb), value);
            return Ok(0);
        }
        let (widgets, rates) = (self.widgets.len() as u32, self.rates);
        let none = Widget::default();
        let at = usize::from(node).wrapping_sub(2);
        let widget = self.widgets.get(at).unwrap_or(&none);
        Ok(match (node, verb, low) {
            (0, PARAMETER, NODES_BELOW) => 1 << 16 | 1,
            (1, PARAMETER, NODES_BELOW) => 2 << 16 | widgets,
            (1, PARAMETER, GROUP_KIND) => AUDIO,
            (1, PARAMETER, SIZES_AND_RATES) => rates,
            (_, PARAMETER, WIDGET) => {
                let list = if widget.list.is_empty() { 0 } else { HAS_LIST };
                widget.kind << 20 | widget.is | list
            }
            (_, PARAMETER, SIZES_AND_RATES) => widget.rates,
            (_, PARAMETER, PIN) => widget.pin,
            (_, PARAMETER, INPUT_AMPLIFIER | OUTPUT_AMPLIFIER) => widget.amplifier,
            (_, PARAMETER, LIST_LEN) => widget.list.len() as u32,
            (_, CONNECTIONS, first) => {
                let entries = widget.list.iter().skip(first as usize).take(4);
                (entries.enumerate())
                    .fold(0, |word, (at, node)| word | u32::from(*node) << (8 * at))
            }
            (_, CONFIGURATION, _) => widget.configuration,
            (_, SENSE, _) => u32::from(widget.plugged) << 31,
            _ => 0,
        })
    }
}

fn of_kind(kind: u32, list: &[u8]) -> Widget {
    Widget {
        kind,
        list: list.to_vec(),
        ..Widget::default()
    }
}

fn pin(can: u32, device: u32, list: &[u8]) -> Widget {
    Widget {
        pin: can,
        configuration: device << 20,
        ..of_kind(IS_PIN, list)
    }
}

fn nodes(route: &Route) -> Vec<(u8, u8)> {
    let steps = route.steps().iter();
    steps.map(|step| (step.node, step.connection)).collect()
}

fn ways(model: &mut Model) -> Option<Found> {
    let mut codec = Codec::new(model, 3).unwrap().unwrap();
    find(&mut codec).unwrap()
}

/// As QEMU has it: a converter and a pin for each direction.
fn simple() -> Vec<Widget> {
    let mut output = of_kind(CONVERTER_OUT, &[]);
    output.is = HAS_OUTPUT_AMPLIFIER | OWN_AMPLIFIERS | OWN_FORMATS;
    (output.amplifier, output.rates) = (0x4a, USUAL);
    let mut input = of_kind(CONVERTER_IN, &[5]);
    input.is = HAS_INPUT_AMPLIFIER | OWN_AMPLIFIERS;
    input.amplifier = 0x33;
    vec![
        output,
        pin(CAN_OUT, 0, &[2]),
        input,
        pin(CAN_IN | VOLTAGE_80, 0xa, &[]),
    ]
}

#[test]
fn a_simple_codec_is_opened() {
    let mut model = Model::new(&simple());
    let found = ways(&mut model).unwrap();
    assert_eq!(nodes(&found.output), [(3, 0), (2, 0)]);
    assert_eq!(nodes(&found.input.unwrap()), [(4, 0), (5, 0)]);
    assert_eq!(found.rate, 44_100);
    let mut codec = Codec::new(&mut model, 3).unwrap().unwrap();
    found.set(&mut codec, 1, 2).unwrap();
    let set = |node, verb| model.set.get(&(node, verb)).copied();
    assert_eq!(set(2, SET_FORMAT | 0x4000), Some(0x011));
    assert_eq!(set(2, SET_STREAM), Some(0x10));
    assert_eq!(set(2, SET_AMPLIFIER | OF_OUTPUT | BOTH_SIDES), Some(0x4a));
    assert_eq!(set(3, SET_PIN), Some(OUT));
    assert_eq!(set(4, SET_STREAM), Some(0x20));
    assert_eq!(set(4, SET_AMPLIFIER | OF_INPUT | BOTH_SIDES), Some(0x33));
    assert_eq!(set(5, SET_PIN), Some(IN_VOLTAGE_80));
    assert_eq!(set(3, SET_CONNECTION), None, "there is one connection");
}

#[test]
fn a_way_leads_through_mixers_and_selectors() {
    let mut digital = of_kind(CONVERTER_OUT, &[]);
    digital.is = DIGITAL;
    let mut mixer = of_kind(MIXER, &[2, 3]);
    mixer.is = HAS_INPUT_AMPLIFIER;
    let mut speaker = pin(CAN_OUT | EXTERNAL, 1, &[5, 6]);
    speaker.configuration |= 2 << 30;
    let mut line = pin(CAN_OUT | SENSES, 0, &[2]);
    let mut headphones = pin(CAN_OUT | SENSES | HEADPHONES, 2, &[6]);
    // From 2 on: two converters, a selector, two mixers, pins, a converter that records from a selector.
    let widgets = |line: &Widget, headphones: &Widget| {
        [
            digital.clone(),
            of_kind(CONVERTER_OUT, &[]),
            of_kind(SELECTOR, &[2, 6]),
            of_kind(MIXER, &[2]),
            mixer.clone(),
            speaker.clone(),
            line.clone(),
            headphones.clone(),
            of_kind(CONVERTER_IN, &[11]),
            // 12 to 14 in one entry.
            of_kind(SELECTOR, &[12, 0x80 | 14]),
            pin(CAN_OUT, 0, &[]),
            pin(CAN_IN, 8, &[]),
            pin(CAN_IN, 0xa, &[]),
        ]
    };
    let mut model = Model::new(&widgets(&line, &headphones));
    let found = ways(&mut model).unwrap();
    // The loudspeaker is always there, and its first connection leads to a digital converter alone.
    assert_eq!(nodes(&found.output), [(7, 1), (6, 1), (3, 0)]);
    // The microphone is better than the line.
    assert_eq!(nodes(&found.input.unwrap()), [(10, 0), (11, 2), (14, 0)]);
    let mut codec = Codec::new(&mut model, 3).unwrap().unwrap();
    found.set(&mut codec, 1, 2).unwrap();
    let set = |node, verb| model.set.get(&(node, verb)).copied();
    assert_eq!(set(7, SET_CONNECTION), Some(1));
    assert_eq!(set(7, SET_EXTERNAL), Some(2));
    assert_eq!(set(6, SET_CONNECTION), None, "a mixer takes all");
    let second = SET_AMPLIFIER | OF_INPUT | BOTH_SIDES;
    assert_eq!(set(6, second), Some(1 << 8));
    assert_eq!(set(11, SET_CONNECTION), Some(2));
    // A pin where something is plugged in comes first, where there is a way.
    (line.plugged, headphones.plugged) = (true, true);
    let found = ways(&mut Model::new(&widgets(&line, &headphones))).unwrap();
    assert_eq!(nodes(&found.output), [(9, 0), (6, 1), (3, 0)]);
}

#[test]
fn both_directions_have_one_rate() {
    let mut widgets = simple();
    widgets[2].is |= OWN_FORMATS;
    widgets[2].rates = 1 << 17 | 1 << 6;
    assert_eq!(ways(&mut Model::new(&widgets)).unwrap().rate, 48_000);
    // None in common: it plays, and does not record.
    widgets[2].rates = 1 << 17 | 1 << 10;
    let found = ways(&mut Model::new(&widgets)).unwrap();
    assert_eq!((found.rate, found.input), (44_100, None));
    // A codec for output alone.
    let found = ways(&mut Model::new(&widgets[..2])).unwrap();
    assert_eq!(found.input, None);
    // No samples of 16 bits.
    widgets[0].rates = 0x60;
    assert_eq!(ways(&mut Model::new(&widgets)), None);
}

#[test]
fn a_codec_that_makes_no_sense_is_left() {
    // All lead to each other, and nowhere.
    let all: Vec<u8> = (2..120).collect();
    let mut widgets = vec![of_kind(SELECTOR, &all); 100];
    widgets[50] = pin(CAN_OUT | CAN_IN, 0, &all);
    let mut model = Model::new(&widgets);
    assert_eq!(ways(&mut model), None);
    assert!(model.asked < 20_000, "{}", model.asked);
    // A way that is too long.
    let mut chain: Vec<Widget> = (0..20u8).map(|at| of_kind(MIXER, &[at + 3])).collect();
    chain[0] = pin(CAN_OUT, 0, &[3]);
    chain.push(of_kind(CONVERTER_OUT, &[]));
    assert_eq!(ways(&mut Model::new(&chain)), None);

    /// Answers everything alike.
    struct Alike(u32);
    impl Asks for Alike {
        fn ask(&mut self, _: u8, node: u8, _: u32) -> Result<u32, DeviceError> {
            assert!(usize::from(node) < NODES);
            Ok(self.0)
        }
    }
    for answer in [0, 1, 0xff, 0x0100_0001, 0x8080_8080, 0x0040_0101, u32::MAX] {
        if let Some(mut codec) = Codec::new(&mut Alike(answer), 3).unwrap() {
            assert_eq!(find(&mut codec), Ok(None), "{answer:#x}");
        }
    }
    struct Gone;
    impl Asks for Gone {
        fn ask(&mut self, _: u8, _: u8, _: u32) -> Result<u32, DeviceError> {
            Err(DeviceError::Gone)
        }
    }
    assert!(Codec::new(&mut Gone, 3).is_err());
}
