//! The battery clock: the chip (MC146818 and its kin) that counts seconds while the machine is off.
//!
//! *Interface*: [`read`] and [`write()`], in seconds since 1970 (UTC); one party at a time. The chip has two
//! digits of the year, taken as of this century. Its interrupts are not used: the two ports lead to one
//! register at a time, so a handler would change the one that a thread has just chosen.

use crate::date::Date;
#[cfg(target_os = "none")]
use crate::port::{inb, outb};

/// Fields second, minute, hour, day, month and year of the century, by the registers that hold them.
const FIELDS: [u8; 6] = [0, 2, 4, 7, 8, 9];
/// Status registers A and B.
const A: u8 = 0x0a;
const B: u8 = 0x0b;
/// In A: the fields are being changed.
const UPDATE: u8 = 0x80;
/// In B: the fields are being set; they are numbers, and not decimal digits; hours go to 24.
const SETTING: u8 = 0x80;
const BINARY: u8 = 4;
const WHOLE_DAY: u8 = 2;
/// In the hour: after noon, where they go to 12.
const AFTERNOON: u8 = 0x80;
/// The first year.
const CENTURY: u32 = 2000;

#[cfg(target_os = "none")]
fn register(index: u8) -> u8 {
    // SAFETY: the chip's index and data ports; bit 7 (NMI off) stays clear.
    unsafe {
        outb(0x70, index);
        inb(0x71)
    }
}

#[cfg(target_os = "none")]
fn set(index: u8, value: u8) {
    // SAFETY: the same; the values are the documented ones of these registers.
    unsafe {
        outb(0x70, index);
        outb(0x71, value);
    }
}

/// Seconds since 1970, or `None` when there is no clock.
#[cfg(target_os = "none")]
pub fn read() -> Option<u64> {
    let mut last = None;
    // Two equal readings outside an update.
    for _ in 0..1000 {
        if register(A) & UPDATE != 0 {
            continue;
        }
        let fields = FIELDS.map(register);
        if last == Some(fields) {
            return seconds(fields, register(B));
        }
        last = Some(fields);
    }
    None
}

/// There is none on a host.
#[cfg(not(target_os = "none"))]
pub fn read() -> Option<u64> {
    None
}

/// Sets the clock. False for a time outside of this century, which it cannot hold.
pub fn write(seconds: u64) -> bool {
    let Some(date) = Date::at(seconds) else {
        return false;
    };
    #[cfg(target_os = "none")]
    {
        let status = register(B);
        let Some(fields) = fields(date, status) else {
            return false;
        };
        set(B, status | SETTING);
        FIELDS
            .into_iter()
            .zip(fields)
            .for_each(|(at, value)| set(at, value));
        set(B, status & !SETTING);
        true
    }
    #[cfg(not(target_os = "none"))]
    fields(date, 0).is_some()
}

/// Seconds since 1970 from the fields and status B.
fn seconds(fields: [u8; 6], status: u8) -> Option<u64> {
    let number = |x: u8| {
        u32::from(match status & BINARY {
            0 => (x >> 4) * 10 + (x & 15),
            _ => x,
        })
    };
    let mut hour = number(fields[2] & !AFTERNOON);
    if status & WHOLE_DAY == 0 {
        hour = hour % 12 + if fields[2] & AFTERNOON != 0 { 12 } else { 0 };
    }
    let [second, minute, _, day, month, year] = fields.map(number);
    let year = (year < 100).then_some(CENTURY + year)?;
    Date {
        year,
        month,
        day,
        hour,
        minute,
        second,
    }
    .seconds()
}

/// The fields of a date, as status B has them; None outside of this century.
fn fields(date: Date, status: u8) -> Option<[u8; 6]> {
    let year = date.year.checked_sub(CENTURY).filter(|&year| year < 100)?;
    let digits = |number: u32| {
        let number = number as u8;
        match status & BINARY {
            0 => ((number / 10) << 4) | (number % 10),
            _ => number,
        }
    };
    let hour = match (status & WHOLE_DAY, date.hour) {
        (0, hour @ ..12) => digits((hour + 11) % 12 + 1),
        (0, hour) => digits((hour + 11) % 12 + 1) | AFTERNOON,
        (_, hour) => digits(hour),
    };
    let [second, minute, day, month, year] =
        [date.second, date.minute, date.day, date.month, year].map(digits);
    Some([second, minute, hour, day, month, year])
}

#[cfg(test)]
mod tests {
    use super::{Date, fields, seconds};

    #[test]
    fn dates() {
        // 2026-11-21 19:49:51, BCD, 24 hours.
        assert_eq!(
            seconds([0x51, 0x49, 0x19, 0x21, 0x11, 0x26], 2),
            Some(1_795_290_591)
        );
        // The same in binary, 12 hours.
        assert_eq!(
            seconds([51, 49, 0x80 | 7, 21, 11, 26], 4),
            Some(1_795_290_591)
        );
        assert_eq!(seconds([0xff; 6], 0xff), None);
        assert_eq!(seconds([0; 6], 2), None);
        // 2000-02-29
        assert_eq!(seconds([0, 0, 0, 0x29, 2, 0], 2), Some(951_782_400));
    }

    /// A time that is set is read back, however the chip keeps it.
    #[test]
    fn both_ways() {
        for status in [0, 2, 4, 6] {
            for hour in 0..2400 {
                let time = 951_700_000 + hour * 3_601;
                let set = fields(Date::at(time).unwrap(), status).unwrap();
                assert_eq!(seconds(set, status), Some(time), "{status} {set:?}");
            }
            assert_eq!(fields(Date::at(946_684_799).unwrap(), status), None);
            assert_eq!(fields(Date::at(4_102_444_800).unwrap(), status), None);
        }
    }
}
