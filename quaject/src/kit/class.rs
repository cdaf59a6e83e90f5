//! Classes of quajects: their members, links, counts of users, and inactive members.
//!
//! *Interface*: the [`quaject!`](crate::quaject) macro declares a class and makes its body type a [`Body`];
//! [`create`] makes a member, or takes one from the class's inactive list, and gives a counted [`Ref`].
//! Dropping the last `Ref` puts the member back on that list with its code and memory. [`for_each_class`] and
//! [`Class::for_each`] walk all members without a lock, for `/syn`.
//!
//! Memory of members is type-stable: a header stays a header, so a walk may read it at any time.
//!
//! Progress: lock-free: lists that only grow, a few places of inactive members, a stack of those that were
//! stripped, counts that are added to.
//!
//! Source: dissertation, sections 4.1.1 and 4.1.2.
//!
//! *Unsafe*: type-stable members behind counted handles, lists that nothing leaves.

use crate::kit::inactive::{self, Handle, Inactive};
use crate::kit::interfacer::Target;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::Shape;
pub use crate::kit::wiring::Placed;
use crate::kit::wiring::Wiring;
use alloc::sync::Weak;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
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
pub struct Element {
    /// Its name, as in tables 4.2 to 4.4.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The default action while nothing is linked; empty for callentries.
    pub default: &'static str,
    /// The values that pass through it.
    pub shape: &'static Shape,
}

/// A callout or callback of signature `S` of the quajects that are a `B`.
pub struct Port<B, S> {
    number: u8,
    signature: PhantomData<fn(B) -> S>,
}

impl<B, S> Port<B, S> {
    /// Number `number` of the class. Used by [`quaject!`](crate::quaject).
    #[doc(hidden)]
    pub const fn new(number: usize) -> Self {
        Port {
            number: number as u8,
            signature: PhantomData,
        }
    }

    /// Its number in its class.
    pub const fn number(self) -> usize {
        self.number as usize
    }
}

impl<B, S> Clone for Port<B, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, S> Copy for Port<B, S> {}

/// The owner of a routine in which links stand.
#[derive(Clone)]
pub enum Holder {
    /// A quaject, which is told which of its ports is concerned.
    Member(&'static Header),
    /// Another.
    Other(Weak<dyn Remake>),
    /// Another, which never goes.
    Lasting(&'static dyn Remake),
}

/// One who has a routine in which links stand, and is no quaject.
pub trait Remake: Send + Sync {
    /// Makes the routine anew and publishes it.
    ///
    /// # Errors
    /// [`RoutineError`]: then what was published is right under the old links, or leaves to Rust.
    fn remake(&self) -> Result<(), RoutineError>;
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
    pub ports: &'static [Element],
    /// Gives up the code and memory of an inactive member.
    strip: unsafe fn(NonNull<Header>),
    /// Makes the code of a member anew, as far as it goes through the port of this number.
    remake: fn(&'static Header, usize) -> Result<(), RoutineError>,
    /// Gives back a count of a member.
    release: unsafe fn(NonNull<Header>),
    members: AtomicPtr<Header>,
    /// Members that wait with code and memory.
    inactive: Inactive<Spare, SPARES>,
    /// Members that have neither any more, for the type is for ever.
    stripped: Stack,
    created: AtomicU64,
    reused: AtomicU64,
    active: AtomicUsize,
    listed: AtomicBool,
    next: AtomicPtr<Class>,
}

/// Members of a class that wait with code and memory, at most.
const SPARES: usize = 8;

/// A member that nobody has a handle to, with its body.
struct Spare(NonNull<Header>);

// SAFETY: it is the pointer. Members are `Send`, as their bodies are.
unsafe impl Handle for Spare {
    type To = Header;
    fn into_raw(self) -> NonNull<Header> {
        self.0
    }
    unsafe fn from_raw(raw: NonNull<Header>) -> Self {
        Spare(raw)
    }
}

impl Spare {
    /// Gives up its code and memory. The member waits without.
    fn let_go(self) {
        // SAFETY: members are never freed.
        let class = unsafe { self.0.as_ref() }.class;
        // SAFETY: no other party has it, and it is a member of this class.
        unsafe { (class.strip)(self.0) };
        // SAFETY: in no list, and never freed.
        unsafe { class.stripped.push(self.0.cast()) };
    }
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

impl Class {
    /// A class without members. Used by [`quaject!`](crate::quaject).
    pub const fn new<B: Body>(
        name: &'static str,
        purpose: &'static str,
        ports: &'static [Element],
    ) -> Class {
        assert!(ports.len() <= PORTS);
        Class {
            name,
            purpose,
            ports,
            strip: strip::<B>,
            remake: remake::<B>,
            release: release::<B>,
            members: AtomicPtr::new(ptr::null_mut()),
            inactive: Inactive::new(Spare::let_go),
            stripped: Stack::new(),
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
        Tally {
            class: self,
            waits: AtomicBool::new(false),
        }
    }

    fn be_listed(&'static self) {
        if !self.listed.load(Ordering::Relaxed) && !self.listed.swap(true, Ordering::AcqRel) {
            inactive::push(&CLASSES, ptr::from_ref(self).cast_mut(), &self.next);
        }
    }

    /// Puts a new member where it can be found.
    fn enlist(&'static self, header: NonNull<Header>) {
        self.be_listed();
        // SAFETY: leaked by `create`, and no other party has it yet.
        let next = unsafe { &header.as_ref().next };
        inactive::push(&self.members, header.as_ptr(), next);
        self.created.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An object that is counted in its class as long as this exists and it does not wait for its next use.
#[derive(Debug)]
pub struct Tally {
    class: &'static Class,
    waits: AtomicBool,
}

impl Tally {
    /// The object goes to an inactive list, unless it was to go there already. Only the caller can reach it.
    #[inline]
    pub fn rest(&self) {
        if !self.waits.load(Ordering::Relaxed) {
            self.waits.store(true, Ordering::Relaxed);
            self.class.active.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// It is used again. Only the caller can reach it.
    #[inline]
    pub fn again(&self) {
        self.waits.store(false, Ordering::Relaxed);
        self.class.active.fetch_add(1, Ordering::Relaxed);
        self.class.reused.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !*self.waits.get_mut() {
            self.class.active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A copy of what is known about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Name of the callentry at the other end.
    pub name: &'static str,
    /// Number of the quaject that it belongs to; 0 for a function of the kernel.
    pub to: u32,
    /// Entry of the code that a call of it reaches now.
    pub entry: usize,
}

/// The header of every member.
#[repr(C)]
pub struct Header {
    /// First field: the node among those that are stripped.
    node: Node,
    class: &'static Class,
    next: AtomicPtr<Header>,
    number: u32,
    references: AtomicU32,
    wiring: Wiring<Target, Holder, PORTS>,
    /// In the low byte the links that lead here one behind the other, at most; then [`HURRIED`] and
    /// [`HURRIES`]; above them the number of links that lead here. When none does, only [`HURRIES`] is left.
    above: AtomicU32,
}

/// A link leads here that an interrupt handler may come along: nothing behind this may wait.
const HURRIED: u32 = 1 << 8;
/// An interrupt handler calls what the ports are linked to.
const HURRIES: u32 = 1 << 9;
/// One link, in [`Header::above`].
const LINK: u32 = 1 << 10;

static NUMBERS: AtomicU32 = AtomicU32::new(1);

impl Header {
    fn new(class: &'static Class) -> Header {
        Header {
            node: Node::new(),
            class,
            next: AtomicPtr::new(ptr::null_mut()),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            references: AtomicU32::new(0),
            wiring: Wiring::new(),
            above: AtomicU32::new(0),
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

    /// Counts a further handle, unless there is none.
    fn count_one_more(&self) -> bool {
        let more = |count: u32| count.checked_add(1).filter(|_| count > 0);
        let (set, fetch) = (Ordering::Acquire, Ordering::Relaxed);
        self.references.fetch_update(set, fetch, more).is_ok()
    }

    /// The target of port number `port`; None while its default action holds.
    pub fn link(&self, port: usize) -> Option<Linked> {
        let target = self.wiring.get(port)?;
        Some(Linked {
            name: target.name(),
            to: target.owner().map_or(0, Header::number),
            entry: target.entry(),
        })
    }

    /// How the link of port number `port` stands in the routine number `at` of those in which it does.
    pub fn site(&self, port: usize, at: usize) -> Option<Placed> {
        self.wiring.site(port, at)
    }

    /// Whether one of `ports` is linked.
    pub(crate) fn is_linked(&self, ports: &[usize]) -> bool {
        self.wiring.is_linked(ports)
    }

    pub(crate) fn wiring(&self) -> &Wiring<Target, Holder, PORTS> {
        &self.wiring
    }

    /// Links that lead here one behind the other, at most.
    pub(crate) fn above(&self) -> u8 {
        self.above.load(Ordering::Relaxed) as u8
    }

    /// So many links lead here, one behind the other; `hurried`: an interrupt handler may come along them.
    pub(crate) fn is_below(&self, above: u8, hurried: bool) {
        let hurried = if hurried { HURRIED } else { 0 };
        let more =
            |old: u32| Some(old & !u32::from(u8::MAX) | u32::from(above.max(old as u8)) | hurried);
        self.change_above(more);
    }

    /// For the maker of the quaject: an interrupt handler will call what its ports are linked to. So no link
    /// is made behind them, near or far, to a callentry that may wait.
    pub fn hurries(&self) {
        self.above.fetch_or(HURRIES, Ordering::Relaxed);
    }

    /// Whether an interrupt handler may call what the ports are linked to.
    pub(crate) fn is_hurried(&self) -> bool {
        self.above.load(Ordering::Relaxed) & (HURRIED | HURRIES) != 0
    }

    /// A link leads here, or is about to.
    pub(crate) fn is_led(&self) {
        self.above.fetch_add(LINK, Ordering::Relaxed);
    }

    /// That link leads here no more. Of what lay in front of it nothing is left with the last one.
    pub(crate) fn is_left(&self) {
        let less = |old: u32| {
            old.checked_sub(LINK)
                .map(|left| if left < LINK { left & HURRIES } else { left })
        };
        self.change_above(less);
    }

    fn change_above(&self, to: impl FnMut(u32) -> Option<u32>) {
        // A count of links that are not there stays.
        let _ = self
            .above
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, to);
    }

    /// Has the quaject make its code anew, as far as that goes through port number `port`.
    pub(crate) fn remake(&'static self, port: usize) -> Result<(), RoutineError> {
        (self.class.remake)(self, port)
    }

    /// Gives every port its default action back, for a quaject that nobody has any more; whether there was a
    /// link.
    fn unlink_all(&self) -> bool {
        (0..self.class.ports.len()).fold(false, |was, port| {
            let old = self.wiring.replace_link(port, None);
            if let Some(owner) = old.as_ref().and_then(|target| target.owner()) {
                owner.is_left();
            }
            was | old.is_some()
        })
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

    /// Makes the body of the member whose header this is, code included. Callbacks and callouts have their
    /// default actions.
    ///
    /// # Errors
    /// The reason that stands in its way.
    fn make(spec: Self::Spec, header: &'static Header) -> Result<Self, Self::Error>;

    /// Makes an inactive member as good as a new one, keeping what code and memory it can.
    ///
    /// # Errors
    /// As [`make`](Self::make); the member is then stripped.
    fn renew(&mut self, spec: Self::Spec, header: &'static Header) -> Result<(), Self::Error> {
        *self = Self::make(spec, header)?;
        Ok(())
    }

    /// Called when the last handle is gone, before a member that was not linked goes to the inactive list:
    /// give up what belongs to others. One that was linked is stripped.
    fn idle(&mut self) {}

    /// Port number `port` is linked to something else: makes the code that goes through it anew, and
    /// publishes it. Not called for two changes at once.
    ///
    /// # Errors
    /// [`RoutineError`]; the code then stays as it was.
    fn remake(&self, _port: usize) -> Result<(), RoutineError> {
        Ok(())
    }

    /// Callentry number `number`, where others' callouts can be linked to it: of the signature that the class
    /// declares.
    fn callentry(_this: &Ref<Self>, _number: usize) -> Option<Target> {
        None
    }
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
    let spare = class.inactive.take().map(|spare| spare.0);
    let (member, new) = match spare.or_else(|| class.stripped.pop().map(NonNull::cast)) {
        Some(member) => (member.cast::<Member<B>>(), false),
        None => (allocate::<B>(class).ok_or(OutOfMemory)?, true),
    };
    // SAFETY: just allocated or taken off the inactive list: no other party has the body.
    let body = unsafe { &mut *member.as_ref().body.get() };
    // SAFETY: members are never freed.
    let header = unsafe { &member.as_ref().header };
    let made = match body {
        Some(body) => body.renew(spec, header),
        None => B::make(spec, header).map(|made| *body = Some(made)),
    };
    if new {
        class.enlist(member.cast());
    }
    if let Err(error) = made {
        *body = None;
        // SAFETY: the member is ours, and members are never freed.
        unsafe { class.stripped.push(member.cast()) };
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
    if codegen::fault_injection::refused() {
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

/// For a member that others have code of, or have taken off the inactive list since: then there is nothing to
/// make.
fn remake<B: Body>(header: &'static Header, port: usize) -> Result<(), RoutineError> {
    match Ref::<B>::of(header) {
        Some(member) => member.remake(port),
        None => Ok(()),
    }
}

/// # Safety
/// The caller has a count of this member of `B`'s class, and gives it up.
unsafe fn release<B: Body>(header: NonNull<Header>) {
    drop(Ref::<B>(header.cast()));
}

/// A counted handle to a quaject of any class.
pub struct Held(&'static Header);

impl Held {
    /// A handle to the quaject of this number, if there is one that somebody has. Looks at all of them.
    pub fn find(number: u32) -> Option<Held> {
        let mut found = None;
        for_each_class(|class| {
            class.for_each(|header| {
                if header.number == number && found.is_none() && header.count_one_more() {
                    found = Some(Held(header));
                }
            });
        });
        found
    }

    /// The part that `/syn` shows.
    pub fn header(&self) -> &'static Header {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `find` has counted it, for this.
        unsafe { (self.0.class.release)(NonNull::from(self.0)) }
    }
}

/// A counted handle to a quaject.
pub struct Ref<B: Body>(NonNull<Member<B>>);

// SAFETY: handles share the body, which is `Send + Sync`.
unsafe impl<B: Body> Send for Ref<B> {}
// SAFETY: as above.
unsafe impl<B: Body> Sync for Ref<B> {}

impl<B: Body> Ref<B> {
    /// A handle to the quaject with this header, of `B`'s class, unless nobody has one any more.
    fn of(header: &'static Header) -> Option<Ref<B>> {
        header
            .count_one_more()
            .then(|| Ref(NonNull::from(header).cast()))
    }

    /// A handle to the quaject with this header, if it is of `B`'s class and somebody has one.
    pub fn known(header: &'static Header) -> Option<Ref<B>> {
        if ptr::eq(header.class, B::class()) {
            Self::of(header)
        } else {
            None
        }
    }

    /// The part that `/syn` shows.
    pub fn header(&self) -> &'static Header {
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
        let was_linked = header.unlink_all();
        // SAFETY: this was the last handle, so the body is ours until the member is on the list.
        let body = unsafe { &mut *self.0.as_ref().body.get() };
        class.active.fetch_sub(1, Ordering::Relaxed);
        let spare = Spare(self.0.cast());
        if was_linked {
            // Its code has others in it.
            return spare.let_go();
        }
        if let Some(body) = body {
            body.idle();
        }
        class.inactive.put(spare);
    }
}

impl<B: Body + fmt::Debug> fmt::Debug for Ref<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{} ", self.header().class.name, self.header().number)?;
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "class_tests.rs"]
mod tests;
