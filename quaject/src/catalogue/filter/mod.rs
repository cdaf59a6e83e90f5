//! Filters: quajects that the bytes of a stream pass one by one. They change them, or count them; none adds a
//! byte or takes one away.
//!
//! *Interface*: a filter has two callentries. `pass` (signature `Pass`) gives the byte back that is to go on,
//! after what its callout `next` leads to has had it too: for a [`Stream`](crate::stream::Stream). `put`
//! (signature `Put`) hands the byte to its callout `to`: for a place between two other stages, such as a
//! pump and a queue. Each stands in line where it is linked. `value` is what the filter has counted, if it
//! counts. The filters are a file each; [`Filter`] is what they have in common, [`Treatment`] is the part
//! specific to each filter.
//!
//! A byte that a `put` could not hand on is not counted: it comes again.
//!
//! Source: dissertation, sections 3.2.2 and 4.1.4.
//!
//! *Unsafe*: safety contracts of the generated `pass` and `put`; callentries pass the filter that they keep.

pub mod checksum;
pub mod newline;
pub mod rate;
pub mod tap;
#[cfg(test)]
pub(crate) mod tests;
pub mod upper;

use crate::kit::assembly::{Assembly, Continuation, Made, Published};
use crate::kit::class::{Body, Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Target};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Routine, dynasm};

/// The contract of `pass` and `put`: a byte; for `pass` the byte that goes on, for `put` 0 when it was not
/// taken.
pub type ByteFn = extern "sysv64" fn(byte: usize) -> usize;

/// Numbers of a filter's callentries and callouts, in all its classes.
pub(crate) const PASS: usize = 0;
pub(crate) const PUT: usize = 1;
pub(crate) const VALUE: usize = 2;
const NEXT: usize = 3;
const TO: usize = 4;

/// The treatment that a kind of filter gives to a byte in edi, in generated code.
pub trait Treatment: Send + Sync + 'static {
    /// Ports besides `next` and `to` through which its code goes on, a bit each.
    const THROUGH: u16 = 0;

    /// Changes it. May change rax.
    fn change(&self, _a: &mut Assembly) {}

    /// Counts it when it has gone on; it is in edi still. May change what a System V function may.
    ///
    /// # Errors
    /// [`RoutineError`].
    fn note(&self, _a: &mut Assembly, _header: &'static Header) -> Result<(), RoutineError> {
        Ok(())
    }

    /// The count that it has made.
    fn value(&self, _header: &'static Header) -> u64 {
        0
    }
}

/// A filter.
pub struct Filter<T> {
    header: &'static Header,
    treatment: T,
    pass: Published<ByteFn>,
    put: Published<ByteFn>,
}

static PASSING: Class = Class::new("filter pass");
static PUTTING: Class = Class::new("filter put");

impl<T: Treatment> Filter<T> {
    fn new(treatment: T, header: &'static Header) -> Result<Self, RoutineError> {
        let pass = Published::new(passing(&treatment, header)?);
        let put = Published::new(putting(&treatment, header)?);
        Ok(Filter {
            header,
            treatment,
            pass,
            put,
        })
    }

    fn remake(&self, port: usize) -> Result<(), RoutineError> {
        if port != TO {
            self.pass.publish(passing(&self.treatment, self.header)?);
        }
        if port != NEXT {
            self.put.publish(putting(&self.treatment, self.header)?);
        }
        Ok(())
    }

    /// Callentry `pass`: the byte that goes on in place of `byte`.
    pub fn pass(&self, byte: u8) -> u8 {
        self.pass.call(|pass| pass(usize::from(byte))) as u8
    }

    /// Callentry `put`: whether the byte was taken.
    pub fn put(&self, byte: u8) -> bool {
        self.put.call(|put| put(usize::from(byte))) != 0
    }

    /// Callentry `value`: what it has counted.
    pub fn value(&self) -> u64 {
        self.treatment.value(self.header)
    }

    /// The generated `pass` and `put`, to look at.
    pub fn routines(&self) -> [Routine<ByteFn>; 2] {
        [self.pass.plugged(), self.put.plugged()]
    }
}

// A draft is large: one is on a frame at a time.
#[inline(never)]
fn passing<T: Treatment>(
    treatment: &T,
    header: &'static Header,
) -> Result<Made<ByteFn>, RoutineError> {
    let mut a = Assembly::new(&PASSING, header.class().name, Some(Holder::Member(header)));
    emit_pass(&mut a, treatment, header)?;
    dynasm!(a ; .arch x64 ; movzx eax, al ; ret);
    // SAFETY: it keeps the System V convention, and changes nothing but what the treatment counts.
    unsafe { a.seal(None) }
}

#[inline(never)]
fn putting<T: Treatment>(
    treatment: &T,
    header: &'static Header,
) -> Result<Made<ByteFn>, RoutineError> {
    let mut a = Assembly::new(&PUTTING, header.class().name, Some(Holder::Member(header)));
    let no = a.label();
    emit_put(&mut a, treatment, header, no)?;
    dynasm!(a ; .arch x64 ; mov eax, 1 ; ret ; =>no ; xor eax, eax ; ret);
    // SAFETY: as above.
    unsafe { a.seal(None) }
}

/// The byte in edi passes; it comes out in al. Changes what a System V function may.
fn emit_pass<T: Treatment>(
    a: &mut Assembly,
    treatment: &T,
    header: &'static Header,
) -> Result<(), RoutineError> {
    treatment.change(a);
    treatment.note(a, header)?;
    match a.use_link(header, NEXT) {
        Some(link) => {
            dynasm!(a ; .arch x64 ; mov esi, edi);
            a.place(link, Regs::NONE, None, &[]);
        }
        None => dynasm!(a ; .arch x64 ; mov eax, edi),
    }
    Ok(())
}

/// The byte in edi is handed on, or it goes to `no`. Changes what a System V function may.
fn emit_put<T: Treatment>(
    a: &mut Assembly,
    treatment: &T,
    header: &'static Header,
    no: codegen::Label,
) -> Result<(), RoutineError> {
    let Some(link) = a.use_link(header, TO) else {
        dynasm!(a ; .arch x64 ; jmp =>no);
        return Ok(());
    };
    treatment.change(a);
    dynasm!(a ; .arch x64 ; mov esi, edi);
    a.place(link, Regs::of(&[Reg::Rdi]), Some(no), &[]);
    treatment.note(a, header)
}

/// The callentry number `number` of `filter`.
fn target<T: Treatment>(filter: &Ref<Filter<T>>, number: usize) -> Option<Target>
where
    Filter<T>: Body,
{
    match number {
        PASS => Some(Arc::new(Passing(filter.clone()))),
        PUT => Some(Arc::new(Putting(filter.clone()))),
        _ => None,
    }
}

struct Passing<T>(Ref<Filter<T>>)
where
    Filter<T>: Body;

struct Putting<T>(Ref<Filter<T>>)
where
    Filter<T>: Body;

extern "sysv64" fn pass_one<T: Treatment>(filter: *const Filter<T>, byte: usize) -> usize {
    // SAFETY: the callentry passes the filter that it keeps.
    usize::from(unsafe { &*filter }.pass(byte as u8))
}

extern "sysv64" fn put_one<T: Treatment>(filter: *const Filter<T>, byte: usize) -> usize {
    // SAFETY: as above.
    usize::from(unsafe { &*filter }.put(byte as u8))
}

impl<T: Treatment> Callentry for Passing<T>
where
    Filter<T>: Body,
{
    fn name(&self) -> &'static &'static str {
        &"pass"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << NEXT | T::THROUGH
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
        emit_pass(a, &self.0.treatment, self.0.header()).is_ok()
    }
    // Through Rust, which keeps the routine as long as a thread is inside.
    fn entry(&self) -> usize {
        pass_one::<T> as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

impl<T: Treatment> Callentry for Putting<T>
where
    Filter<T>: Body,
{
    fn name(&self) -> &'static &'static str {
        &"put"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << TO | T::THROUGH
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        emit_put(a, &self.0.treatment, self.0.header(), way.no).is_ok()
    }
    fn entry(&self) -> usize {
        put_one::<T> as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

/// Declares the class of a filter: its name and purpose, its treatment, and how that is made.
macro_rules! filter {
    (
        #[doc = $purpose:literal]
        $body:ident = $name:literal, $treatment:ty, spec $spec:ty, make $make:expr
        $(, callout $out:ident: $out_shape:ty = $out_name:literal ($out_default:literal))?
    ) => {
        #[doc = concat!("The filter ", $name, ".")]
        pub type $body = $crate::catalogue::filter::Filter<$treatment>;

        $crate::quaject! {
            #[doc = $purpose]
            class $body = $name, spec $spec, error $crate::RoutineError {
                callentry {
                    PASS: $crate::signature::Pass = "pass",
                    PUT: $crate::signature::Put = "put",
                    VALUE = "value",
                }
                callout {
                    NEXT: $crate::signature::Pass = "next" ("the byte passes as it is"),
                    TO: $crate::signature::Put = "to" ("return 0"),
                    $($out: $out_shape = $out_name ($out_default),)?
                }
            }
            make |spec, header| $crate::catalogue::filter::Filter::new(($make)(spec)?, header);
            remake |filter: &$body, port| filter.remake(port);
            callentry |filter: &$crate::class::Ref<$body>, number| {
                $crate::catalogue::filter::target(filter, number)
            };
        }

        const _: () = assert!(
            PASS == $crate::catalogue::filter::PASS
                && PUT == $crate::catalogue::filter::PUT
                && VALUE == $crate::catalogue::filter::VALUE
                && NEXT.number() == $crate::catalogue::filter::NEXT
                && TO.number() == $crate::catalogue::filter::TO
        );
    };
}
use filter;
