//! A port of the console device: a stream whose queues the device fills and empties by itself.
//!
//! *Interface*: [`Port`] is a [`Stream`], once [`Port::open`] has made the queue for a direction; without one
//! it has no memory but its rings. [`Port::remove`] is what the device's notice of its removal comes to.

use super::super::transport::{Doorbell, Transport};
use super::super::virtqueue::{Virtqueue, WRITES};
use super::super::zero_copy::{QueueDirection, ZeroCopyQueue, starter};
use crate::Unusable;
use crate::interrupt::{Interrupt, Source};
use crate::stream::{Stream, Waiters};
use alloc::sync::Arc;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicBool, Ordering};
use machine::cpu;
use quaject::assembly::Assembly;
use quaject::class::{Ref, create};
use quaject::interfacer::link;
use quaject::join;
use quaject::queue::{self, ByteQueue, Parties};
use sync::Once;

/// Bytes in the queue of an open direction: what the kernel lends the device.
const ROOM: usize = 32 << 10;

mod ends {
    quaject::quaject! {
        /// Console port, receiving
        presence PortIn = "Port_in" {
            callentry { SUBMIT: quaject::signature::Event = "submit" }
        }
    }
    pub mod out {
        quaject::quaject! {
            /// Console port, sending
            presence PortOut = "Port_out" {
                callentry { SUBMIT: quaject::signature::Event = "submit" }
            }
        }
    }
}

/// The number of a port's first queue (section 5.3.2): those of control lie behind the first port's.
fn first_queue(port: u32) -> u16 {
    match port {
        0 => 0,
        other => 2 + 2 * other as u16,
    }
}

/// The ring of one direction, which the device has from the beginning, and what announces it.
struct Lane {
    ring: Virtqueue,
    bell: Doorbell,
}

impl Lane {
    fn new(transport: &Transport, number: u16, vector: u16) -> Result<Lane, Unusable> {
        let ring = Virtqueue::new(1).ok_or(Unusable::Resources)?;
        let bell = transport.set_queue(number, &ring, vector)?;
        Ok(Lane { ring, bell })
    }
}

/// The parts of an open direction.
struct Open {
    queue: Ref<ByteQueue>,
    flow: Arc<ZeroCopyQueue>,
    _server: Server,
}

#[expect(dead_code, reason = "kept for as long as the direction is open")]
enum Server {
    In(Ref<ends::PortIn>),
    Out(Ref<ends::out::PortOut>),
}

/// One port.
pub struct Port {
    number: u32,
    named: AtomicBool,
    incoming: Lane,
    outgoing: Lane,
    interrupt: Arc<Interrupt>,
    input: Once<Open>,
    output: Once<Open>,
    waiters: Waiters,
    gone: AtomicBool,
}

impl Port {
    /// Port number `number`, whose two queues interrupt by entry `vector` of the device's table, which is
    /// `interrupt`.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn new(
        transport: &Transport,
        number: u32,
        vector: u16,
        interrupt: Arc<Interrupt>,
    ) -> Result<Port, Unusable> {
        let first = first_queue(number);
        let incoming = Lane::new(transport, first, vector)?;
        incoming.ring.set_flags(0, WRITES);
        Ok(Port {
            number,
            named: AtomicBool::new(false),
            incoming,
            outgoing: Lane::new(transport, first + 1, vector)?,
            interrupt,
            input: Once::new(),
            output: Once::new(),
            waiters: Waiters::new(),
            gone: AtomicBool::new(false),
        })
    }

    /// Its number, by which the host knows it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it may have a name: the first time.
    pub fn take_name(&self) -> bool {
        !self.named.swap(true, Ordering::Relaxed)
    }

    /// Makes the queue of a direction and lets the device at it. Once for each direction.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn open(&'static self, way: QueueDirection) -> Result<(), Unusable> {
        // The device at one end, any threads at the other.
        let (from, to) = match way {
            QueueDirection::In => (Parties::One, Parties::Many),
            QueueDirection::Out => (Parties::Many, Parties::One),
        };
        let queue = join::queue(from, to, ROOM, cpu::cpus() > 1)?;
        let (lane, server, owner, port) = match way {
            QueueDirection::In => {
                let server = create::<ends::PortIn>(())?;
                let owner = server.header();
                (&self.incoming, Server::In(server), owner, queue::Q_FULL_1)
            }
            QueueDirection::Out => {
                let server = create::<ends::out::PortOut>(())?;
                let owner = server.header();
                (&self.outgoing, Server::Out(server), owner, queue::Q_EMPTY_1)
            }
        };
        let flow = ZeroCopyQueue::new(way, &queue, &lane.ring, lane.bell)?;
        let flow = Arc::new(flow);
        let submit = starter(&flow, owner)?;
        link(&queue, port, submit.entry())?;
        let open = Open {
            queue,
            flow,
            _server: server,
        };
        let slot = match way {
            QueueDirection::In => &self.input,
            QueueDirection::Out => &self.output,
        };
        // A direction is opened once, so there is no race.
        let _opened = slot.set(open);
        self.interrupt.renew()?;
        // The token: the device gets the empty queue to fill, and the word of the output that of a get that
        // failed.
        submit.start();
        Ok(())
    }

    /// The device has removed the port: waiting and new callers get an error.
    pub fn remove(&self) {
        self.gone.store(true, Ordering::Release);
        self.waiters.arrived.wake_all();
        self.waiters.drained.wake_all();
    }
}

impl Stream for Port {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn arriving(&self) -> Option<&Ref<ByteQueue>> {
        Some(&self.input.get()?.queue)
    }

    fn leaving(&self) -> Option<&Ref<ByteQueue>> {
        Some(&self.output.get()?.queue)
    }

    fn is_gone(&self) -> bool {
        let broken = |open: &Once<Open>| open.get().is_some_and(|open| open.flow.is_broken());
        self.gone.load(Ordering::Acquire) || broken(&self.input)
    }

    fn wait_drained(&'static self) {
        self.waiters
            .drained
            .wait_until(|| (self.unsent() == 0 || self.is_gone()).then_some(()));
    }
}

impl Source for Port {
    fn emit(&self, a: &mut Assembly) {
        for open in [&self.input, &self.output]
            .into_iter()
            .filter_map(Once::get)
        {
            open.flow.emit(a);
        }
    }

    fn look(&self, d: &mut Draft, wake: Label) {
        let lists = [
            (&self.input, &self.waiters.arrived),
            (&self.output, &self.waiters.drained),
        ];
        for (open, list) in lists {
            if let Some(open) = open.get() {
                open.flow.look_for_waiters(d, list.word_address(), wake);
            }
        }
    }

    fn wake(&self) {
        let gone = self.is_gone();
        if gone || self.waiting() > 0 {
            self.waiters.arrived.wake_all();
        }
        if gone || self.unsent() <= ROOM / 2 {
            self.waiters.drained.wake_all();
        }
    }
}
