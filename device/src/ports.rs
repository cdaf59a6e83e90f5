//! A device's registers at ports: accesses that cannot leave them.
//!
//! *Interface*: [`Ports`] of 1, 2 or 4 bytes each; what lies outside reads as all ones and takes no writes.
//! [`Ports::at`] is for generated code. In tests a `model::Model` answers in place of the machine.
//!
//! *Unsafe*: ports of a device, never the board's own.

/// A stretch of ports, which one device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    len: u16,
}

macro_rules! access {
    ($($read:ident, $write:ident, $in:ident, $out:ident: $word:ty;)*) => {$(
        /// Reads a register.
        pub fn $read(self, offset: u16) -> $word {
            match self.holds(offset, size_of::<$word>() as u16) {
                Some(port) => raw::$in(port),
                None => <$word>::MAX,
            }
        }

        /// Writes a register.
        pub fn $write(self, offset: u16, value: $word) {
            if let Some(port) = self.holds(offset, size_of::<$word>() as u16) {
                raw::$out(port, value);
            }
        }
    )*};
}

impl Ports {
    /// The `len` ports from `first` on, as configuration space says where they are.
    pub fn new(first: u16, len: u16) -> Ports {
        Ports { first, len }
    }

    /// The `len` ports from `offset` on, if they are all there.
    pub fn part(self, offset: u16, len: u16) -> Option<Ports> {
        let first = self.holds(offset, len)?;
        Some(Ports { first, len })
    }

    /// The number of the port at `offset`, for generated code.
    pub fn at(self, offset: u16) -> u16 {
        self.first.wrapping_add(offset)
    }

    fn holds(self, offset: u16, len: u16) -> Option<u16> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.first.checked_add(offset))?
    }

    access! {
        read8, write8, inb, outb: u8;
        read16, write16, inw, outw: u16;
        read32, write32, inl, outl: u32;
    }
}

#[cfg(not(test))]
mod raw {
    use machine::port;

    macro_rules! raw {
        ($($in:ident, $out:ident: $word:ty;)*) => {$(
            pub fn $in(at: u16) -> $word {
                // SAFETY: within the ports of a device that its driver owns, none of them the board's own.
                unsafe { port::$in(at) }
            }

            pub fn $out(at: u16, value: $word) {
                // SAFETY: as above; the device answers for what the write does.
                unsafe { port::$out(at, value) }
            }
        )*};
    }

    raw! {
        inb, outb: u8;
        inw, outw: u16;
        inl, outl: u32;
    }
}

#[cfg(test)]
pub mod model {
    //! A device at ports, in place of the machine's.

    use std::cell::RefCell;

    /// Its answers.
    pub trait Model {
        /// A read of `len` bytes.
        fn read(&mut self, port: u16, len: u16) -> u32;
        /// A write of `len` bytes.
        fn write(&mut self, port: u16, len: u16, value: u32);
    }

    thread_local! {
        static HERE: RefCell<Option<Box<dyn Model>>> = const { RefCell::new(None) };
    }

    /// From now on `model` answers this thread.
    pub fn answer(model: impl Model + 'static) {
        HERE.set(Some(Box::new(model)));
    }

    pub fn read(port: u16, len: u16) -> u32 {
        HERE.with_borrow_mut(|here| {
            here.as_mut()
                .map_or(u32::MAX, |model| model.read(port, len))
        })
    }

    pub fn write(port: u16, len: u16, value: u32) {
        HERE.with_borrow_mut(|here| {
            if let Some(model) = here {
                model.write(port, len, value);
            }
        });
    }
}

#[cfg(test)]
mod raw {
    use super::model;

    macro_rules! raw {
        ($($in:ident, $out:ident: $word:ty;)*) => {$(
            pub fn $in(at: u16) -> $word {
                model::read(at, size_of::<$word>() as u16) as $word
            }

            pub fn $out(at: u16, value: $word) {
                model::write(at, size_of::<$word>() as u16, value as u32);
            }
        )*};
    }

    raw! {
        inb, outb: u8;
        inw, outw: u16;
        inl, outl: u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl model::Model for Echo {
        fn read(&mut self, port: u16, len: u16) -> u32 {
            assert!((0x2000..0x2010).contains(&port) && port + len <= 0x2010);
            u32::from(port)
        }
        fn write(&mut self, port: u16, len: u16, _: u32) {
            self.read(port, len);
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        model::answer(Echo);
        let ports = Ports::new(0x2000, 16);
        assert_eq!(ports.read16(4), 0x2004);
        assert_eq!(ports.read32(13), u32::MAX);
        assert_eq!(ports.read8(u16::MAX), u8::MAX);
        ports.write32(14, 1);
        ports.write8(16, 1);
        let part = ports.part(8, 8).unwrap();
        assert_eq!((part.read8(1), part.read8(8)), (9, u8::MAX));
        assert_eq!(part.at(2), 0x200a);
        assert!(ports.part(9, 8).is_none() && ports.part(u16::MAX, 2).is_none());
    }
}
