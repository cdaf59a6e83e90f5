//! Terminals: `termios`, `winsize`, and the `ioctl` requests.

plain! {
    /// The kernel's `struct termios`, as `TCGETS` copies it (36 bytes).
    pub struct Termios {
        pub iflag: u32,
        pub oflag: u32,
        pub cflag: u32,
        pub lflag: u32,
        pub line: u8,
        pub cc: [u8; 19],
    }
    /// The kernel's `struct termios2`, as `TCGETS2` copies it (44 bytes).
    pub struct Termios2 {
        pub settings: Termios,
        /// Bits a second.
        pub ispeed: u32,
        pub ospeed: u32,
    }
    /// `struct termio`, its older form (18 bytes).
    pub struct Termio {
        pub iflag: u16,
        pub oflag: u16,
        pub cflag: u16,
        pub lflag: u16,
        pub line: u8,
        pub cc: [u8; 8],
        pub pad: u8,
    }
    /// `struct winsize`.
    pub struct Winsize {
        pub row: u16,
        pub col: u16,
        pub xpixel: u16,
        pub ypixel: u16,
    }
}

constants! { usize:
    VINTR = 0, VQUIT = 1, VERASE = 2, VKILL = 3, VEOF = 4, VTIME = 5, VMIN = 6, VSWTC = 7,
    VSTART = 8, VSTOP = 9, VSUSP = 10, VEOL = 11, VREPRINT = 12, VDISCARD = 13, VWERASE = 14,
    VLNEXT = 15, VEOL2 = 16, NCCS = 19,
}

constants! { u32:
    IGNBRK = 0o1, BRKINT = 0o2, IGNPAR = 0o4, PARMRK = 0o10, INPCK = 0o20, ISTRIP = 0o40, INLCR = 0o100,
    IGNCR = 0o200, ICRNL = 0o400, IUCLC = 0o1000, IXON = 0o2000, IXANY = 0o4000, IXOFF = 0o10000,
    IMAXBEL = 0o20000, IUTF8 = 0o40000,

    OPOST = 0o1, OLCUC = 0o2, ONLCR = 0o4, OCRNL = 0o10, ONOCR = 0o20, ONLRET = 0o40, TABDLY = 0o14000, XTABS = 0o14000,

    CBAUD = 0o10017, BOTHER = 0o10000, B9600 = 0o15, B38400 = 0o17, B115200 = 0o10002,
    CSIZE = 0o60, CS8 = 0o60, CSTOPB = 0o100, CREAD = 0o200, PARENB = 0o400, HUPCL = 0o2000, CLOCAL = 0o4000,

    ISIG = 0o1, ICANON = 0o2, ECHO = 0o10, ECHOE = 0o20, ECHOK = 0o40, ECHONL = 0o100, NOFLSH = 0o200,
    TOSTOP = 0o400, ECHOCTL = 0o1000, ECHOPRT = 0o2000, ECHOKE = 0o4000, FLUSHO = 0o10000,
    PENDIN = 0o40000, IEXTEN = 0o100000, EXTPROC = 0o200000,

    TCGETS = 0x5401, TCSETS = 0x5402, TCSETSW = 0x5403, TCSETSF = 0x5404,
    TCGETA = 0x5405, TCSETA = 0x5406, TCSETAW = 0x5407, TCSETAF = 0x5408,
    TCGETS2 = 0x802c_542a, TCSETS2 = 0x402c_542b, TCSETSW2 = 0x402c_542c, TCSETSF2 = 0x402c_542d,
    TCSBRK = 0x5409, TCXONC = 0x540a, TCFLSH = 0x540b, TIOCEXCL = 0x540c, TIOCNXCL = 0x540d,
    TIOCSCTTY = 0x540e, TIOCGPGRP = 0x540f, TIOCSPGRP = 0x5410, TIOCOUTQ = 0x5411, TIOCSTI = 0x5412,
    TIOCGWINSZ = 0x5413, TIOCSWINSZ = 0x5414, TIOCMGET = 0x5415, FIONREAD = 0x541b, TIOCCONS = 0x541d,
    FIONBIO = 0x5421, TIOCNOTTY = 0x5422, TIOCSETD = 0x5423, TIOCGETD = 0x5424, TCSBRKP = 0x5425,
    TIOCGSID = 0x5429, FIOASYNC = 0x5452, FIOCLEX = 0x5451, FIONCLEX = 0x5450,
    FIOSETOWN = 0x8901, SIOCSPGRP = 0x8902, FIOGETOWN = 0x8903, SIOCGPGRP = 0x8904,
    TIOCGPTN = 0x8004_5430, TIOCSPTLCK = 0x4004_5431, TIOCGDEV = 0x8004_5432, TIOCSIG = 0x4004_5436, TIOCGPKT = 0x8004_5438,
    TIOCGPTLCK = 0x8004_5439, TIOCGEXCL = 0x8004_5440, TIOCGPTPEER = 0x5441, TIOCPKT = 0x5420,
    TIOCPKT_DATA = 0, TIOCPKT_FLUSHREAD = 1, TIOCPKT_FLUSHWRITE = 2, TIOCPKT_STOP = 4, TIOCPKT_START = 8, TIOCPKT_NOSTOP = 16,
    TIOCPKT_DOSTOP = 32, TIOCPKT_IOCTL = 64,
    TCOOFF = 0, TCOON = 1, TCIOFF = 2, TCION = 3,
    TCIFLUSH = 0, TCOFLUSH = 1, TCIOFLUSH = 2,
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_linux() {
        assert_eq!(core::mem::size_of::<super::Termios>(), 36);
        assert_eq!(core::mem::size_of::<super::Termios2>(), 44);
    }
}
