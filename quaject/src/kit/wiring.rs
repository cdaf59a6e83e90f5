//! The links of one quaject, and the places in generated code that they have led to: the interfacer's record.
//!
//! *Interface*: whoever generates code gets a link by [`Wiring::record_use`], which records in the same step
//! that the code depends on it; [`Wiring::set_address`] records the address of the finished code, and
//! [`Wiring::remove_uses`] removes the records of code that is used no more. [`Wiring::replace_link`] changes
//! a link; then the code of every [`Wiring::dependent`] is generated again. The record of a use comes before
//! the change or after it: the code's holder is among the dependents, or the code has the new link.
//!
//! Links are changed one at a time, and a holder makes and publishes its code one image at a time.
//!
//! Progress: a monitor each, held for one copy; thread context.
//!
//! Source: dissertation, section 4.1.3; replugging after Pu et al. 1995.

use alloc::vec::Vec;
use sync::Monitor;

/// Sites of most quajects that have any.
const USUAL: usize = 8;

/// A place of a link in generated code.
#[derive(Clone, Debug)]
pub struct Site<H> {
    /// The owner of the code, who makes it again.
    pub holder: H,
    /// The holder's own port through which its code comes here.
    pub via: u8,
    /// Number of the making.
    pub making: u64,
    /// The port.
    pub port: u8,
    /// The code that stands there; None before the code is sealed.
    pub placed: Option<Placed>,
}

/// How a link stands in generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Address.
    pub at: usize,
    /// Bytes.
    pub bytes: u32,
    /// Address of what is seldom executed of it, where it stands apart.
    pub cold: usize,
    /// Bytes of that.
    pub cold_bytes: u32,
    /// Whether the callentry's code stands there, instead of a call of it.
    pub in_line: bool,
}

struct Links<T, H, const N: usize> {
    links: [Option<T>; N],
    sites: Vec<Site<H>>,
}

/// Links of `N` ports to things of type `T`, in the code of holders of type `H`.
pub struct Wiring<T, H, const N: usize>(Monitor<Links<T, H, N>>);

impl<T: Clone, H: Clone, const N: usize> Wiring<T, H, N> {
    /// Nothing is linked.
    pub fn new() -> Self {
        Wiring(Monitor::new(Links {
            links: [const { None }; N],
            sites: Vec::new(),
        }))
    }

    /// The present link of `port`.
    pub fn get(&self, port: usize) -> Option<T> {
        // Bound: a search in the sites of a quaject's links, a few for each routine in which they stand.
        self.0.lock().links.get(port)?.clone()
    }

    /// Whether one of `ports` is linked now.
    pub fn is_linked(&self, ports: &[usize]) -> bool {
        let held = self.0.lock();
        let linked = |port: &usize| held.links.get(*port).is_some_and(Option::is_some);
        ports.iter().any(linked)
    }

    /// The present link of the port of `site`, for code that is being made; with `unless_linked` the code
    /// does not depend on a port without a link. None when there is no memory to note it.
    pub fn record_use(&self, site: Site<H>, unless_linked: bool) -> Option<Option<T>> {
        let mut held = self.0.lock();
        let link = held.links.get(usize::from(site.port)).cloned().flatten();
        if unless_linked && link.is_none() {
            return Some(None);
        }
        let room = if held.sites.is_empty() { USUAL } else { 1 };
        #[expect(clippy::disallowed_methods, reason = "a place in code that is there")]
        if codegen::fault_injection::refused() || held.sites.try_reserve(room).is_err() {
            return None;
        }
        #[expect(clippy::disallowed_methods, reason = "there is room for it")]
        held.sites.push(site);
        Some(link)
    }

    /// The code of `making` is sealed: `placed` is where the link of `port` stands in it.
    pub fn set_address(&self, making: u64, port: u8, placed: Placed) {
        let mut held = self.0.lock();
        let mine = |site: &&mut Site<H>| {
            site.making == making && site.port == port && site.placed.is_none()
        };
        if let Some(site) = held.sites.iter_mut().find(mine) {
            site.placed = Some(placed);
        }
    }

    /// The code of `making` is used no more.
    pub fn remove_uses(&self, making: u64) {
        self.0.lock().sites.retain(|site| site.making != making);
    }

    /// Links `port` to `to`; returns what it was linked to.
    pub fn replace_link(&self, port: usize, to: Option<T>) -> Option<T> {
        let mut held = self.0.lock();
        let link = held.links.get_mut(port)?;
        core::mem::replace(link, to)
    }

    /// How the link of `port` stands in the routine number `at` of those in which it does.
    pub fn site(&self, port: usize, at: usize) -> Option<Placed> {
        let held = self.0.lock();
        let of_port = held
            .sites
            .iter()
            .filter(|site| usize::from(site.port) == port);
        of_port.filter_map(|site| site.placed).nth(at)
    }

    /// The holder of the oldest code that contains the link of `port` and was made after `last` and before
    /// `limit`, with its port and the making: for one who goes through all, while they make their code anew.
    pub fn dependent(&self, port: usize, last: u64, limit: u64) -> Option<(H, u8, u64)> {
        let held = self.0.lock();
        let old = |site: &&Site<H>| {
            usize::from(site.port) == port && (last + 1..limit).contains(&site.making)
        };
        let oldest = held
            .sites
            .iter()
            .filter(old)
            .min_by_key(|site| site.making)?;
        Some((oldest.holder.clone(), oldest.via, oldest.making))
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::primitive::{AtomicU64, Ordering};
    use loom::sync::Arc;

    /// One who has code, which is here the link that it was made of.
    struct Holder {
        published: AtomicU64,
        /// Number of the making of what is published.
        known: Monitor<u64>,
    }

    struct World {
        links: Wiring<u64, (), 1>,
        holder: Holder,
        makings: AtomicU64,
    }

    impl World {
        fn make(&self) {
            let mut known = self.holder.known.lock();
            let making = self.makings.fetch_add(1, Ordering::SeqCst);
            let site = Site {
                holder: (),
                via: 0,
                making,
                port: 0,
                placed: None,
            };
            let link = self.links.record_use(site, false).unwrap().unwrap();
            self.holder.published.store(link, Ordering::SeqCst);
            self.links.remove_uses(*known);
            *known = making;
        }

        fn relink(&self, to: u64) {
            self.links.replace_link(0, Some(to));
            let limit = self.makings.load(Ordering::SeqCst);
            let mut last = 0;
            while let Some(((), _, making)) = self.links.dependent(0, last, limit) {
                last = making;
                self.make();
            }
        }
    }

    /// Whenever a link changes while its holder makes code, what is published in the end is made of the new
    /// link, and nothing else is known.
    #[test]
    fn no_code_is_left_that_was_made_of_an_old_link() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let world = Arc::new(World {
                links: Wiring::new(),
                holder: Holder {
                    published: AtomicU64::new(0),
                    known: Monitor::new(0),
                },
                makings: AtomicU64::new(1),
            });
            world.links.replace_link(0, Some(1));
            let maker = {
                let world = world.clone();
                loom::thread::spawn(move || world.make())
            };
            world.relink(2);
            maker.join().unwrap();
            assert_eq!(world.holder.published.load(Ordering::SeqCst), 2);
            let known = *world.holder.known.lock();
            let (.., making) = world.links.dependent(0, 0, u64::MAX).unwrap();
            assert_eq!(making, known);
            assert!(world.links.dependent(0, known, u64::MAX).is_none());
        });
    }
}
