//! Classes of quajects: their members, links, counts of users, and inactive members.
//!
//! *Interface*: the [`quaject!`](crate::quaject) macro declares a class and makes its body type a [`Body`];
//! [`create`] makes a member, or takes one from the class's inactive list, and gives a counted [`Ref`].
//! Dropping the last `Ref` puts the member back on that list with its code and memory; [`reclaim`] frees
//! those when memory runs short. [`for_each_class`] and [`Class::for_each`] walk all members without a lock,
//! for `/syn`.
//!
//! Memory of members is type-stable: a header stays a header, so a walk may read it at any time.
//!
//! Progress: lock-free: lists that only grow, a stack of inactive members, counts that are added to.
//!
//! Source: dissertation, sections 4.1.1 and 4.1.2.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sync::stack::{Node, Stack};

/// The three parts of a quaject's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A service that clients call.
    Callentry,
    /// The procedure for an exceptional situation, instead of a returned code.
    Callback,
    /// A place where the quaject calls another's callentry.
    Callout,
}

/// One element of a quaject's interface.
#[derive(Debug)]
pub struct Port {
    /// Its name, as in tables 4.2 to 4.4.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The default action while nothing is linked; empty for callentries.
    pub default: &'static str,
}

/// The most ports that a class can have.
pub const PORTS: usize = 12;

/// A class of quajects. One `static` each.
pub struct Class {
    /// Name, as in table 4.1.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// Its interface.
    pub ports: &'static [Port],
    /// Gives up the code and memory of an inactive member.
    strip: unsafe fn(NonNull<Header>),
    members: AtomicPtr<Header>,
    inactive: Stack,
    created: AtomicU64,
    reused: AtomicU64,
    active: AtomicUsize,
    listed: AtomicBool,
    next: AtomicPtr<Class>,
}

static CLASSES: AtomicPtr<Class> = AtomicPtr::new(ptr::null_mut());

/// Calls `f` with every class that has or had a member.
pub fn for_each_class(mut f: impl FnMut(&'static Class)) {
    let mut at = CLASSES.load(Ordering::Acquire);
    // SAFETY: only `&'static Class` are on the list, and none ever leaves it.
    while let Some(class) = unsafe { at.as_ref() } {
        f(class);
        at = class.next.load(Ordering::Acquire);
    }
}

/// Gives up the code and memory of every inactive member of every class; returns how many there were.
pub fn reclaim() -> usize {
    let mut count = 0;
    for_each_class(|class| {
        for node in class.inactive.take_all() {
            let header = node.cast::<Header>();
            // SAFETY: taken off the inactive list, so no other party has it; it is a member of this class.
            unsafe { (class.strip)(header) };
            // SAFETY: as above; a stripped member can be used again like any other.
            unsafe { class.inactive.push(node) };
            count += 1;
        }
    });
    count
}

impl Class {
    /// A class without members. Used by [`quaject!`](crate::quaject).
    pub const fn new<B: Body>(
        name: &'static str,
        purpose: &'static str,
        ports: &'static [Port],
    ) -> Class {
        assert!(ports.len() <= PORTS);
        Class {
            name,
            purpose,
            ports,
            strip: strip::<B>,
            members: AtomicPtr::new(ptr::null_mut()),
            inactive: Stack::new(),
            created: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            listed: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Members in use.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Members made since boot, and how often one was used again instead.
    pub fn made(&self) -> (u64, u64) {
        (
            self.created.load(Ordering::Relaxed),
            self.reused.load(Ordering::Relaxed),
        )
    }

    /// Calls `f` with every member, active or not. Members may come and go meanwhile.
    pub fn for_each(&self, mut f: impl FnMut(&'static Header)) {
        let mut at = self.members.load(Ordering::Acquire);
        // SAFETY: headers stay headers for ever.
        while let Some(header) = unsafe { at.as_ref() } {
            f(header);
            at = header.next.load(Ordering::Acquire);
        }
    }

    /// Counts an object that is a quaject of this class but lives and dies elsewhere, too often for a header
    /// of its own.
    pub fn tally(&'static self) -> Tally {
        self.be_listed();
        self.created.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        Tally(self)
    }

    fn be_listed(&'static self) {
        if !self.listed.load(Ordering::Relaxed) && !self.listed.swap(true, Ordering::AcqRel) {
            push(&CLASSES, ptr::from_ref(self).cast_mut(), &self.next);
        }
    }

    /// Puts a new member where it can be found.
    fn enlist(&'static self, header: NonNull<Header>) {
        self.be_listed();
        // SAFETY: leaked by `create`, and no other party has it yet.
        let next = unsafe { &header.as_ref().next };
        push(&self.members, header.as_ptr(), next);
        self.created.fetch_add(1, Ordering::Relaxed);
    }
}

/// Pushes onto a list that nothing ever leaves.
fn push<T>(list: &AtomicPtr<T>, new: *mut T, next: &AtomicPtr<T>) {
    let mut head = list.load(Ordering::Relaxed);
    loop {
        next.store(head, Ordering::Relaxed);
        match list.compare_exchange(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An object that is counted in its class as long as this exists.
#[derive(Debug)]
pub struct Tally(&'static Class);

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The target of a callback or callout.
#[derive(Debug)]
pub struct Link {
    name: AtomicPtr<&'static str>,
    to: AtomicU32,
    in_line: AtomicBool,
}

/// A copy of the record of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Name of the callentry at the other end.
    pub name: &'static str,
    /// Number of the quaject that it belongs to; 0 for a function of the kernel.
    pub to: u32,
    /// Whether its code is inlined into the caller instead of called.
    pub in_line: bool,
}

/// The header of every member.
#[repr(C)]
pub struct Header {
    /// First field: the node in the inactive list.
    node: Node,
    class: &'static Class,
    next: AtomicPtr<Header>,
    number: u32,
    references: AtomicU32,
    links: [Link; PORTS],
}

static NUMBERS: AtomicU32 = AtomicU32::new(1);

impl Header {
    fn new(class: &'static Class) -> Header {
        Header {
            node: Node::new(),
            class,
            next: AtomicPtr::new(ptr::null_mut()),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            references: AtomicU32::new(0),
            links: [const {
                Link {
                    name: AtomicPtr::new(ptr::null_mut()),
                    to: AtomicU32::new(0),
                    in_line: AtomicBool::new(false),
                }
            }; PORTS],
        }
    }

    /// Its class.
    pub fn class(&self) -> &'static Class {
        self.class
    }

    /// Its number, unique among all quajects since boot.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Handles to it; 0 while it is on the inactive list.
    pub fn references(&self) -> usize {
        self.references.load(Ordering::Relaxed) as usize
    }

    /// The target of port number `port`; None while its default action holds.
    pub fn link(&self, port: usize) -> Option<Linked> {
        let link = self.links.get(port)?;
        // SAFETY: only `&'static &'static str` are stored.
        let name = unsafe { link.name.load(Ordering::Acquire).as_ref() }?;
        Some(Linked {
            name,
            to: link.to.load(Ordering::Relaxed),
            in_line: link.in_line.load(Ordering::Relaxed),
        })
    }

    /// Records the new target of port number `port`. A walk may see parts of the old record and of the new.
    pub fn note_link(
        &self,
        port: usize,
        name: Option<&'static &'static str>,
        to: u32,
        in_line: bool,
    ) {
        let link = &self.links[port];
        link.to.store(to, Ordering::Relaxed);
        link.in_line.store(in_line, Ordering::Relaxed);
        let name = name.map_or(ptr::null_mut(), |name| ptr::from_ref(name).cast_mut());
        link.name.store(name, Ordering::Release);
    }

    fn unlink_all(&self) {
        (0..PORTS).for_each(|port| self.note_link(port, None, 0, false));
    }
}

/// The body of a class's members, beside the header.
pub trait Body: Sized + Send + Sync + 'static {
    /// The description from which a member is made.
    type Spec;
    /// Why one could not be made.
    type Error: From<OutOfMemory>;

    /// The class.
    fn class() -> &'static Class;

    /// Makes a member's body, code included. Callbacks and callouts have their default actions.
    ///
    /// # Errors The reason why it cannot be made.
    fn make(spec: Self::Spec) -> Result<Self, Self::Error>;

    /// Makes an inactive member as good as a new one, keeping what code and memory it can.
    ///
    /// # Errors
    /// As [`make`](Self::make); the member is then stripped.
    fn renew(&mut self, spec: Self::Spec) -> Result<(), Self::Error> {
        *self = Self::make(spec)?;
        Ok(())
    }

    /// Called when the last handle is gone, before the member goes to the inactive list: give up what belongs
    /// to others.
    fn idle(&mut self) {}
}

/// The heap is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

#[repr(C)]
struct Member<B> {
    /// First field, so that a header's address is its member's.
    header: Header,
    body: UnsafeCell<Option<B>>,
}

/// Makes a member of `B`'s class, or takes one from the inactive list.
///
/// # Errors
/// Those of [`Body::make`].
pub fn create<B: Body>(spec: B::Spec) -> Result<Ref<B>, B::Error> {
    let class = B::class();
    let inactive = class.inactive.pop().map(NonNull::cast::<Member<B>>);
    let (member, new) = match inactive {
        Some(member) => (member, false),
        None => (allocate::<B>(class).ok_or(OutOfMemory)?, true),
    };
    // SAFETY: just allocated or taken off the inactive list: no other party has the body.
    let body = unsafe { &mut *member.as_ref().body.get() };
    let made = match body {
        Some(body) => body.renew(spec),
        None => B::make(spec).map(|made| *body = Some(made)),
    };
    if new {
        class.enlist(member.cast());
    }
    if let Err(error) = made {
        *body = None;
        // SAFETY: the member is ours, and members are never freed.
        unsafe { class.inactive.push(member.cast()) };
        return Err(error);
    }
    if !new {
        class.reused.fetch_add(1, Ordering::Relaxed);
    }
    class.active.fetch_add(1, Ordering::Relaxed);
    // SAFETY: members are never freed.
    unsafe { member.as_ref() }
        .header
        .references
        .store(1, Ordering::Release);
    Ok(Ref(member))
}

fn allocate<B: Body>(class: &'static Class) -> Option<NonNull<Member<B>>> {
    if codegen::refusal::refused() {
        return None;
    }
    let layout = alloc::alloc::Layout::new::<Member<B>>();
    // SAFETY: a member has a header, so the size is not zero.
    let place = NonNull::new(unsafe { alloc::alloc::alloc(layout) }.cast::<Member<B>>())?;
    let member = Member {
        header: Header::new(class),
        body: UnsafeCell::new(None),
    };
    // SAFETY: fresh memory of the right layout.
    unsafe { place.write(member) };
    Some(place)
}

/// # Safety
/// `header` is of an inactive member of `B`'s class that no other party has.
unsafe fn strip<B: Body>(header: NonNull<Header>) {
    // SAFETY: the caller's promise; the header is the member's first field.
    unsafe { *header.cast::<Member<B>>().as_ref().body.get() = None };
}

/// A counted handle to a quaject.
pub struct Ref<B: Body>(NonNull<Member<B>>);

// SAFETY: handles share the body, which is `Send + Sync`.
unsafe impl<B: Body> Send for Ref<B> {}
// SAFETY: as above.
unsafe impl<B: Body> Sync for Ref<B> {}

impl<B: Body> Ref<B> {
    /// Its entry in `/syn`.
    pub fn header(&self) -> &Header {
        // SAFETY: members are never freed.
        unsafe { &self.0.as_ref().header }
    }
}

impl<B: Body> Deref for Ref<B> {
    type Target = B;
    fn deref(&self) -> &B {
        // SAFETY: an active member has a body, and it is changed only while there is no handle.
        match unsafe { &*self.0.as_ref().body.get() } {
            Some(body) => body,
            None => unreachable!("an active quaject without a body"),
        }
    }
}

impl<B: Body> Clone for Ref<B> {
    fn clone(&self) -> Self {
        self.header().references.fetch_add(1, Ordering::Relaxed);
        Ref(self.0)
    }
}

impl<B: Body> Drop for Ref<B> {
    fn drop(&mut self) {
        let header = self.header();
        if header.references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let class = header.class;
        header.unlink_all();
        // SAFETY: this was the last handle, so the body is ours until the member is on the list.
        if let Some(body) = unsafe { &mut *self.0.as_ref().body.get() } {
            body.idle();
        }
        class.active.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: in no list, and never freed.
        unsafe { class.inactive.push(self.0.cast()) };
    }
}

impl<B: Body + fmt::Debug> fmt::Debug for Ref<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} ", self.header().class.name, self.header().number)?;
        (**self).fmt(f)
    }
}

/// Declares a class of quajects: its name, purpose, callentries, callbacks and callouts with their default
/// actions; and from these its class record, its port numbers, and what [`create`] needs to make, count and
/// reuse members of the body type.
///
/// ```ignore
/// quaject! {
///     /// Implements FIFO queues
///     class ByteQueue = "Queue", spec Spec, error Unmade {
///         callentry { Q_PUT = "Q_put", Q_GET = "Q_get" }
///         callback { Q_FULL = "Q_full" ("return 0"), Q_EMPTY = "Q_empty" ("return -1") }
///     }
///     make ByteQueue::make;
/// }
/// let queue = class::create::<ByteQueue>(spec)?;
/// ```
///
/// A quaject whose data lives elsewhere, in another object or a static, is declared by its `presence`. The
/// object keeps the `Ref` from `present()` as long as it exists, and records its links in the header; or, for
/// objects that come and go in large numbers, it keeps the [`Tally`] from `CLASS.tally()`.
///
/// ```ignore
/// quaject! {
///     /// Executes
///     presence ThreadQuaject = "Thread" { callentry { SUSPEND = "suspend", RESUME = "resume" } }
/// }
/// let presence = ThreadQuaject::present();
/// ```
#[macro_export]
macro_rules! quaject {
    (
        #[doc = $purpose:literal]
        presence $body:ident = $name:literal { $($ports:tt)* }
    ) => {
        #[doc = concat!("Shows that there is a ", $name, ".")]
        #[derive(Debug)]
        pub struct $body;

        impl $body {
            #[allow(dead_code, reason = "some are only tallied")]
            /// Adds a member. None when the heap is exhausted; the quaject then works without an entry.
            pub fn present() -> Option<$crate::class::Ref<$body>> {
                $crate::class::create::<$body>(()).ok()
            }
        }

        $crate::quaject! {
            #[doc = $purpose]
            class $body = $name, spec (), error $crate::class::OutOfMemory { $($ports)* }
            make |()| Ok($body);
        }
    };
    (
        #[doc = $purpose:literal]
        class $body:ident = $name:literal, spec $spec:ty, error $error:ty {
            $( callentry { $($entry:ident = $entry_name:literal),* $(,)? } )?
            $( callback { $($back:ident = $back_name:literal ($back_default:literal)),* $(,)? } )?
            $( callout { $($out:ident = $out_name:literal ($out_default:literal)),* $(,)? } )?
        }
        make $make:expr;
        $( renew $renew:expr; )?
        $( idle $idle:expr; )?
    ) => {
        $crate::port_numbers! { 0; $($($entry $entry_name)*)? $($($back $back_name)*)? $($($out $out_name)*)? }

        #[doc = concat!("The class record of ", $name, ".")]
        pub static CLASS: $crate::class::Class = $crate::class::Class::new::<$body>(
            $name,
            $purpose.trim_ascii(),
            &[
                $($( $crate::class::Port {
                    name: $entry_name, kind: $crate::class::Kind::Callentry, default: "",
                }, )*)?
                $($( $crate::class::Port {
                    name: $back_name, kind: $crate::class::Kind::Callback, default: $back_default,
                }, )*)?
                $($( $crate::class::Port {
                    name: $out_name, kind: $crate::class::Kind::Callout, default: $out_default,
                }, )*)?
            ],
        );

        impl $crate::class::Body for $body {
            type Spec = $spec;
            type Error = $error;
            fn class() -> &'static $crate::class::Class {
                &CLASS
            }
            fn make(spec: Self::Spec) -> Result<Self, Self::Error> {
                ($make)(spec)
            }
            $(
                fn renew(&mut self, spec: Self::Spec) -> Result<(), Self::Error> {
                    ($renew)(self, spec)
                }
            )?
            $(
                fn idle(&mut self) {
                    ($idle)(self)
                }
            )?
        }
    };
}

/// Numbers the ports of a class in the order of its definition.
#[doc(hidden)]
#[macro_export]
macro_rules! port_numbers {
    ($number:expr;) => {};
    ($number:expr; $port:ident $name:literal $($rest:tt)*) => {
        #[doc = concat!("Number of the port `", $name, "`.")]
        #[allow(dead_code, reason = "not every class uses the numbers of all its ports")]
        pub const $port: usize = $number;
        $crate::port_numbers! { $number + 1; $($rest)* }
    };
}

#[cfg(all(test, not(loom)))]
#[path = "class_tests.rs"]
mod tests;
