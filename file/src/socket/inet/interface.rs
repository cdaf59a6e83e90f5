//! The network interfaces for old ioctls: only `lo`.
//!
//! *Interface*: [`control`].
//!
//! Source: netdevice(7).

use abi::errno::{Errno, Result};
use abi::linux::*;
use vm::user;

use super::multicast::LOOPBACK;

/// Its name, as in `struct ifreq`.
const NAME: [u8; 16] = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// The bytes that go through it at once.
pub const MTU: i32 = 65_536;
/// It is up, it is the host itself, and it runs.
const FLAGS: i16 = 0x49;
/// The kind of its hardware.
const ARPHRD_LOOPBACK: u16 = 772;
/// How many messages might wait to be sent.
const LENGTH: i32 = 1000;

fn address(four: [u8; 4]) -> [u8; 24] {
    let mut bytes = [0; 24];
    let (head, rest) = bytes.split_at_mut(4);
    head.copy_from_slice(&[AF_INET as u8, 0, 0, 0]);
    for (to, from) in rest.iter_mut().zip(four) {
        *to = from;
    }
    bytes
}

fn value(bytes: &[u8]) -> [u8; 24] {
    let mut all = [0; 24];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    all
}

/// The operation `command` on what is at `at`, by a socket of IPv4 or another. ENODEV, EFAULT, EPERM, ENOTTY.
pub fn control(four: bool, command: u32, at: usize) -> Result<usize> {
    match command {
        SIOCGIFCONF => return list(at),
        SIOCGIFNAME => {
            let request: Ifreq = user::get(at)?;
            let index = request
                .value
                .first_chunk()
                .map(|four| i32::from_ne_bytes(*four));
            if index != Some(LOOPBACK) {
                return Err(Errno::ENODEV);
            }
            return user::put(at, &NAME).map(|()| 0);
        }
        SIOCGIFADDR | SIOCGIFNETMASK | SIOCGIFBRDADDR | SIOCGIFDSTADDR if !four => {
            return Err(Errno::ENOTTY);
        }
        SIOCSIFFLAGS | SIOCSIFADDR | SIOCSIFNETMASK | SIOCSIFMTU | SIOCSIFHWADDR => {
            user::get::<Ifreq>(at)?;
            return Err(Errno::EPERM);
        }
        SIOCETHTOOL => {
            user::get::<Ifreq>(at)?;
            return Err(Errno::EOPNOTSUPP);
        }
        SIOCGIFFLAGS | SIOCGIFADDR | SIOCGIFNETMASK | SIOCGIFBRDADDR | SIOCGIFDSTADDR
        | SIOCGIFINDEX | SIOCGIFMTU | SIOCGIFHWADDR | SIOCGIFMETRIC | SIOCGIFTXQLEN
        | SIOCGIFMAP => {}
        _ => return Err(Errno::ENOTTY),
    }
    let mut request: Ifreq = user::get(at)?;
    let name = request
        .name
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    if name != b"lo" {
        return Err(Errno::ENODEV);
    }
    request.value = match command {
        SIOCGIFFLAGS => value(&FLAGS.to_ne_bytes()),
        SIOCGIFADDR | SIOCGIFDSTADDR => address([127, 0, 0, 1]),
        SIOCGIFNETMASK => address([255, 0, 0, 0]),
        SIOCGIFBRDADDR => address([0; 4]),
        SIOCGIFINDEX => value(&LOOPBACK.to_ne_bytes()),
        SIOCGIFMTU => value(&MTU.to_ne_bytes()),
        SIOCGIFHWADDR => value(&ARPHRD_LOOPBACK.to_ne_bytes()),
        SIOCGIFTXQLEN => value(&LENGTH.to_ne_bytes()),
        _ => value(&[]),
    };
    user::put(at, &request).map(|()| 0)
}

/// All interfaces that have an address of IPv4, as far as there is room.
fn list(at: usize) -> Result<usize> {
    let mut wanted: Ifconf = user::get(at)?;
    let size = size_of::<Ifreq>();
    wanted.length = match (wanted.buffer, usize::try_from(wanted.length)) {
        (0, _) => size as i32,
        (_, Ok(room)) if room >= size => {
            let request = Ifreq {
                name: NAME,
                value: address([127, 0, 0, 1]),
            };
            user::put(wanted.buffer as usize, &request)?;
            size as i32
        }
        _ => 0,
    };
    user::put(at, &wanted).map(|()| 0)
}
