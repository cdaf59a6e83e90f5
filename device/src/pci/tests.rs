//! Devices that are as they should be, and devices that are not, in a model of configuration space.

use super::model::Model;
use super::*;

fn at(bus: u8, device: u8, function: u8) -> PciAddress {
    PciAddress::new(0, bus, device, function)
}

fn one(model: &'static Model) -> Function {
    model.function(at(0, 1, 0), 0x1043_1af4, 0);
    Function::new(model, at(0, 1, 0))
}

fn found(model: &'static Model) -> Vec<PciAddress> {
    let mut all = Vec::new();
    each(model, 0, &mut |function| all.push(function.address()));
    all
}

#[test]
fn functions_and_what_is_behind_bridges_are_found_once() {
    let model = Model::leaked();
    assert!(found(model).is_empty());
    model.function(at(0, 0, 0), 0x29c0_8086, 0);
    // Several functions, with a gap; without the mark only the first counts.
    model.function(at(0, 31, 0), 0x2918_8086, 0x80);
    model.function(at(0, 31, 3), 0x2930_8086, 0);
    model.function(at(0, 2, 0), 0x1234_8086, 0);
    model.function(at(0, 2, 1), 0x1234_8086, 0);
    // Bridges to bus 3, to their own bus, and back from bus 3.
    for (place, behind) in [
        (at(0, 4, 0), 3),
        (at(0, 5, 0), 0),
        (at(3, 1, 0), 0),
        (at(3, 2, 0), 3),
    ] {
        model.function(place, 0x000c_1b36, 1);
        model.set(place, 0x18, behind << 8, 0);
    }
    model.function(at(3, 0, 0), 0x1043_1af4, 0);
    model.function(at(7, 0, 0), 0x1043_1af4, 0);
    // A header of an unknown kind.
    model.function(at(0, 9, 0), 0x1043_1af4, 0x55);
    let expected = [
        at(0, 0, 0),
        at(0, 2, 0),
        at(0, 4, 0),
        at(0, 5, 0),
        at(0, 31, 0),
        at(0, 31, 3),
        at(3, 0, 0),
        at(3, 1, 0),
        at(3, 2, 0),
    ];
    assert_eq!(found(model), expected);
}

#[test]
fn base_addresses_are_sized_and_left_as_they_were() {
    let model = Model::leaked();
    let function = one(model);
    let place = function.address();
    model.set(place, 4, 7, 0xffff);
    model.bar(place, 1, 0xfebd_1000, 0xffff_f000);
    model.bar(place, 4, 0xfe00_000c, 0xffff_c000);
    model.bar(place, 5, 0x0000_0008, 0xffff_ffff);
    let bar = |physical, size| Ok(Bar { physical, size });
    assert_eq!(function.bar(1), bar(0xfebd_1000, 0x1000));
    assert_eq!(function.bar(4), bar(0x8_fe00_0000, 0x4000));
    assert_eq!(model.get(place, 0x14), 0xfebd_1000);
    assert_eq!(
        (model.get(place, 0x20), model.get(place, 0x24)),
        (0xfe00_000c, 8)
    );
    assert_eq!(model.get(place, 4), 7);
}

#[test]
fn base_addresses_that_make_no_sense_are_refused() {
    let model = Model::leaked();
    let function = one(model);
    let place = function.address();
    // Nothing there; ports; below a mebibyte, reserved; no bit compared; a kind that needs a second word,
    // last.
    assert_eq!(function.bar(0), Err(DeviceError::Bar));
    for (value, mask) in [
        (0xc001, 0xffff_fffc),
        (0x2, !0xf),
        (0x6, !0xf),
        (8, 0),
        (0, 8),
    ] {
        model.bar(place, 0, value, mask);
        assert_eq!(function.bar(0), Err(DeviceError::Bar), "{value:#x}");
    }
    model.bar(place, 5, 0xfeb0_0004, 0xffff_f000);
    assert_eq!(function.bar(5), Err(DeviceError::Bar));
    for index in [6, 7, 63, 255] {
        assert_eq!(function.bar(index), Err(DeviceError::Bar));
    }
    // Put nowhere, or around the end.
    model.bar(place, 0, 0, 0xffff_f000);
    assert_eq!(function.bar(0), Err(DeviceError::Place));
    model.bar(place, 2, 0xffff_f004, 0xffff_f000);
    model.bar(place, 3, 0xffff_ffff, 0xffff_ffff);
    assert_eq!(function.bar(2), Err(DeviceError::Place));
}

#[test]
fn what_has_been_measured_is_not_asked_again() {
    let model = Model::leaked();
    let function = one(model);
    let place = function.address();
    model.bar(place, 0, 0xfeb0_0000, 0xffff_f000);
    model.bar(place, 2, 0x0000_000c, 0xffff_c000);
    model.bar(place, 3, 0x0000_0008, 0xffff_ffff);
    function.measure();
    // From now on its base addresses take nothing: a question would show.
    model.set(place, 0x10, 0xfeb0_0000, 0);
    model.set(place, 0x18, 0x0000_000c, 0);
    model.set(place, 0x1c, 0x0000_0008, 0);
    let size = |index| function.bar(index).map(|bar| bar.size);
    assert_eq!((size(0), size(2)), (Ok(0x1000), Ok(0x4000)));
    assert_eq!(function.bar(3), Err(DeviceError::Bar));
    // Another function there has other ones.
    model.bar(place, 0, 0xfeb0_0000, 0xffff_0000);
    function.measure();
    assert_eq!(size(0), Ok(0x10000));
}

#[test]
fn a_bridge_has_two_base_addresses() {
    let model = Model::leaked();
    model.function(at(0, 1, 0), 0x000c_1b36, 1);
    let bridge = Function::new(model, at(0, 1, 0));
    model.bar(bridge.address(), 1, 0xfeb0_0000, 0xffff_f000);
    // Its buses' numbers and the room behind it.
    model.bar(bridge.address(), 2, 0x0003_0300, 0x00ff_ffff);
    bridge.measure();
    assert_eq!(bridge.bar(1).map(|bar| bar.size), Ok(0x1000));
    assert_eq!(bridge.bar(2), Err(DeviceError::Bar));
    assert_eq!(model.get(bridge.address(), 0x18), 0x0003_0300);
}

#[test]
fn registers_lie_within_their_base_address() {
    let model = Model::leaked();
    let function = one(model);
    model.bar(function.address(), 0, 0xfeb0_0000, 0xffff_f000);
    for (offset, len) in [
        (0, 0x1001),
        (0x1000, 1),
        (u32::MAX, u32::MAX),
        (0, u32::MAX),
        (8, 0),
    ] {
        assert!(matches!(
            function.registers(0, offset, len),
            Err(DeviceError::Fit)
        ));
    }
}

fn list(
    model: &Model,
    function: &Function,
    words: &[(u8, u8, u8)],
) -> (Vec<u8>, Result<(), DeviceError>) {
    let place = function.address();
    model.set(place, 4, 1 << 20, 0);
    for (offset, id, next) in words {
        model.set(
            place,
            u16::from(*offset),
            u32::from(*next) << 8 | u32::from(*id),
            0,
        );
    }
    let mut ids = Vec::new();
    let result = function.capabilities(&mut |capability| {
        ids.push(capability.id);
        // Beyond the end there is nothing.
        assert!(capability.offset < 0xf0 || capability.read(0x40) == u32::MAX);
    });
    (ids, result)
}

#[test]
fn a_list_of_capabilities_is_followed_to_its_end_and_no_further() {
    let model = Model::leaked();
    let function = one(model);
    let mut none = Vec::new();
    assert_eq!(
        function.capabilities(&mut |capability| none.push(capability.id)),
        Ok(())
    );
    model.set(function.address(), 0x34, 0x50, 0);
    let good = [(0x50, 9, 0x84), (0x84, 0x11, 0x43), (0x40, 9, 0)];
    assert_eq!(list(model, &function, &good), (vec![9, 0x11, 9], Ok(())));
    // Back to the first; to itself, as nothing; into the header.
    let back = [(0x50, 9, 0x84), (0x84, 0x11, 0x50)];
    assert_eq!(list(model, &function, &back).1, Err(DeviceError::List));
    assert_eq!(
        list(model, &function, &[(0x50, 0, 0x50)]).1,
        Err(DeviceError::List)
    );
    assert_eq!(
        list(model, &function, &[(0x50, 5, 0x10)]),
        (vec![5], Err(DeviceError::List))
    );
    // All ones, as from a device that has gone.
    let gone = [(0x50, 9, 0xff), (0xfc, 0xff, 0xff)];
    assert_eq!(list(model, &function, &gone).1, Err(DeviceError::List));
    assert!(matches!(function.msix(), Err(DeviceError::List)));
}

#[test]
fn a_table_of_interrupts_must_fit() {
    let model = Model::leaked();
    let function = one(model);
    let place = function.address();
    model.set(place, 0x34, 0x40, 0);
    let table = |entries: u32, bar: u32| {
        model.set(place, 0x40, 0x11 | (entries - 1) << 16, 0xc000_0000);
        model.set(place, 0x44, bar, 0);
        function.msix().map(|found| found.is_some())
    };
    model.set(place, 4, 1 << 20, 0);
    model.bar(place, 1, 0xfeb0_0000, 0xffff_f000);
    assert_eq!(table(2048, 1), Err(DeviceError::Fit));
    assert_eq!(table(4, 0xff1), Err(DeviceError::Fit));
    assert_eq!(table(4, 7), Err(DeviceError::Bar));
    assert_eq!(table(4, 2), Err(DeviceError::Bar));
    model.set(place, 0x40, 9, 0);
    assert_eq!(function.msix().map(|found| found.is_none()), Ok(true));
}

#[test]
fn a_message_is_set_where_it_has_room() {
    let model = Model::leaked();
    let function = one(model);
    let place = function.address();
    model.set(place, 4, 1 << 20, 0);
    let message = |at: u16, control: u32| {
        model.set(place, 0x34, u32::from(at), 0);
        model.set(place, at, 5 | control << 16, 0x71 << 16);
        (4..16)
            .step_by(4)
            .for_each(|word| model.set(place, at + word, 0, u32::MAX));
        function.msi().unwrap().unwrap()
    };
    let words = |at: u16| [0, 4, 8, 12].map(|word| model.get(place, at + word));
    // One word for the address; it was on, for several messages.
    let narrow = message(0x50, 0x11);
    assert_eq!(words(0x50)[0], 5, "it is off at first");
    narrow.set((0xfee0_1000, 0x51)).unwrap();
    assert_eq!(words(0x50), [5 | 1 << 16, 0xfee0_1000, 0x51, 0]);
    assert_eq!(narrow.set((1 << 32, 0)), Err(DeviceError::Fit));
    narrow.mask();
    assert_eq!(words(0x50)[0], 5);
    // Two.
    message(0x50, 0x80).set((0x1_fee0_1000, 0x51)).unwrap();
    assert_eq!(words(0x50), [5 | 0x81 << 16, 0xfee0_1000, 1, 0x51]);
    // At the end of the space.
    model.set(place, 0x34, 0xf8, 0);
    model.set(place, 0xf8, 5, 0);
    let last = function.msi().unwrap().unwrap();
    assert_eq!(last.set((0xfee0_1000, 0x51)), Err(DeviceError::Fit));
    model.set(place, 0xf8, 9, 0);
    assert!(function.msi().unwrap().is_none());
}

#[test]
fn a_line_is_one_of_the_controllers_inputs() {
    let model = Model::leaked();
    let function = one(model);
    for (word, line) in [
        (0x010b, Some(11)),
        (0x000b, None),
        (0x01ff, None),
        (0x0100, None),
        (0x050b, None),
    ] {
        model.set(function.address(), 0x3c, word, 0);
        assert_eq!(function.line(), line);
    }
}

/// A port with a slot, behind which bus 3 begins; what the slot can do, and its control and status.
fn port(model: &'static Model, capable: u32, state: u32) -> Function {
    let place = at(0, 2, 0);
    model.function(place, 0x000c_1b36, 1);
    model.set(place, 4, 1 << 20, 0);
    model.set(place, 0x18, 3 << 8 | 3 << 16, 0);
    model.set(place, 0x34, 0x54, 0);
    model.set(place, 0x54, 0x10 | 1 << 24, 0);
    model.set(place, 0x54 + 0x14, capable, 0);
    model.set(place, 0x54 + 0x18, state, 0xffff);
    Function::new(model, place)
}

const HOT: u32 = 1 << 6;
const WITHOUT_NOTES: u32 = 1 << 18;
const STATE: u16 = 0x54 + 0x18;

#[test]
fn what_a_slot_says_is_heard_once() {
    let model = Model::leaked();
    // Pressed, and a device is there.
    let port = port(model, HOT | WITHOUT_NOTES | 2, 1 << 16 | 1 << 22);
    let slot = Slot::of(&port).unwrap();
    slot.listen();
    let change = Change {
        pressed: true,
        moved: false,
        present: true,
    };
    assert_eq!(slot.take(), Some(change));
    assert_eq!(slot.take(), None);
    slot.power(false);
    assert_eq!(model.get(port.address(), STATE) & 0x729, 0x729);
    slot.power(true);
    assert_eq!(model.get(port.address(), STATE) & 0x729, 0x129);
    // The port itself is gone.
    model.set(port.address(), STATE, u32::MAX, 0);
    assert!(slot.take().is_none() && !slot.is_present());
}

#[test]
fn a_port_without_a_slot_that_changes_has_none() {
    let model = Model::leaked();
    assert!(Slot::of(&port(model, WITHOUT_NOTES, 0)).is_none());
    let bare = port(model, HOT, 0);
    model.set(bare.address(), 0x54, 0x10, 0);
    assert!(Slot::of(&bare).is_none());
    let nowhere = port(model, HOT, 0);
    model.set(nowhere.address(), 0x18, 0, 0);
    assert!(Slot::of(&nowhere).is_none());
}

#[test]
fn registers_are_put_where_the_port_passes_them_on() {
    let model = Model::leaked();
    let port = port(model, HOT, 0);
    let slot = Slot::of(&port).unwrap();
    model.set(port.address(), 0x20, 0xfe90_fe80, 0);
    let mut room = slot.room().unwrap();
    assert_eq!(room, 0xfe80_0000..0xfea0_0000);
    let one = at(3, 0, 0);
    model.function(one, 0x1049_1af4, 0);
    model.bar(one, 1, 0, 0xffff_f000);
    model.bar(one, 4, 0xc, 0xffff_c000);
    model.bar(one, 5, 0, 0xffff_ffff);
    let function = Function::new(model, one);
    assert_eq!(function.bar(1), Err(DeviceError::Place));
    function.place_all(&mut room).unwrap();
    let bar = |physical, size| Ok(Bar { physical, size });
    assert_eq!(function.bar(1), bar(0xfe80_0000, 0x1000));
    assert_eq!(function.bar(4), bar(0xfe80_4000, 0x4000));
    assert_eq!(room.start, 0xfe80_8000);
    // One that does not fit; a port that passes nothing on.
    model.bar(one, 1, 0, 0xff00_0000);
    assert_eq!(function.place_all(&mut room), Err(DeviceError::Place));
    model.set(port.address(), 0x20, 0x0000_fff0, 0);
    assert_eq!(slot.room(), Err(DeviceError::Place));
}
