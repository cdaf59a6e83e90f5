//! The user as whom somebody has logged in (Linux: audit's `loginuid`), and the number of that session.
//! Programs keep both over all changes of identity, and children have them too.
//!
//! *Interface*: [`Login::uid`], [`Login::session`], [`Login::set`]; [`Login::inherited`] for a child.

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering};

/// Nobody has logged in.
pub const UNSET: u32 = u32::MAX;

/// The user who has logged in, and that session.
pub struct Login {
    uid: AtomicU32,
    session: AtomicU32,
}

impl Login {
    /// Nobody has.
    pub fn nobody() -> Login {
        Login {
            uid: AtomicU32::new(UNSET),
            session: AtomicU32::new(UNSET),
        }
    }

    /// The same for a child.
    pub fn inherited(&self) -> Login {
        Login {
            uid: AtomicU32::new(self.uid()),
            session: AtomicU32::new(self.session()),
        }
    }

    /// The user, or [`UNSET`].
    pub fn uid(&self) -> u32 {
        self.uid.load(Ordering::Relaxed)
    }

    /// The number of the session, or [`UNSET`].
    pub fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed)
    }

    /// User `uid` has logged in, which begins a session, or with [`UNSET`] nobody. EPERM: somebody has
    /// already, and the caller has no right to control audit (`able`).
    pub fn set(&self, uid: u32, able: bool) -> Result<()> {
        static SESSIONS: AtomicU32 = AtomicU32::new(0);
        if self.uid() != UNSET && !able {
            return Err(Errno::EPERM);
        }
        let session = match uid {
            UNSET => UNSET,
            _ => SESSIONS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
        };
        self.session.store(session, Ordering::Relaxed);
        self.uid.store(uid, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_logs_in_once_unless_one_may_control_that() {
        let login = Login::nobody();
        assert_eq!((login.uid(), login.session()), (UNSET, UNSET));
        login.set(7, false).unwrap();
        let first = login.session();
        assert_ne!(first, UNSET);
        assert_eq!(login.set(8, false), Err(Errno::EPERM));
        let child = login.inherited();
        assert_eq!((child.uid(), child.session()), (7, first));
        login.set(8, true).unwrap();
        assert!(login.uid() == 8 && login.session() != first);
        login.set(UNSET, true).unwrap();
        assert_eq!((login.uid(), login.session()), (UNSET, UNSET));
        assert_eq!(child.uid(), 7);
    }
}
