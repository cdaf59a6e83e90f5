//! The macro that declares a class of quajects.
//!
//! *Interface*: [`quaject!`](crate::quaject).
//!
//! Source: dissertation, section 4.1.1.

/// Declares a class of quajects: its name, purpose, callentries, callbacks and callouts with their default
/// actions; and from these its class record, its port numbers, and what [`create`](crate::class::create)
/// needs to make, count and reuse members of the body type.
///
/// ```ignore
/// quaject! {
///     /// Implements FIFO queues
///     class ByteQueue = "Queue", spec Spec, error Unmade {
///         callentry { Q_PUT: Put = "Q_put", Q_GET: Get = "Q_get" }
///         callback { Q_FULL: Retry = "Q_full" ("return 0"), Q_EMPTY: Retry = "Q_empty" ("return -1") }
///     }
///     make ByteQueue::make;
/// }
/// let queue = class::create::<ByteQueue>(spec)?;
/// ```
///
/// Each element has a signature (`kit/signature.rs`); a callentry without one is called from Rust only. For
/// callouts and callbacks this declares typed [`Port`](crate::class::Port)s such as
/// `Q_FULL: Port<ByteQueue, Retry>`, for callentries their numbers. `remake` and `callentry` are what
/// [`Body`](crate::class::Body) says.
///
/// A quaject whose data lives elsewhere, in another object or a static, is declared by its `presence`. The
/// object keeps the `Ref` that `present()` gives as long as it is there; the code that goes through its
/// callouts is another's. Or, where there are many that come and go, it keeps the
/// [`Tally`](crate::class::Tally) that `CLASS.tally()` gives.
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
            make |(), _| Ok($body);
        }
    };
    (
        #[doc = $purpose:literal]
        class $body:ident = $name:literal, spec $spec:ty, error $error:ty {
            $( callentry { $($entry:ident $(: $entry_shape:ty)? = $entry_name:literal),* $(,)? } )?
            $( callback { $($back:ident: $back_shape:ty = $back_name:literal ($back_default:literal)),* $(,)? } )?
            $( callout { $($out:ident: $out_shape:ty = $out_name:literal ($out_default:literal)),* $(,)? } )?
        }
        make $make:expr;
        $( renew $renew:expr; )?
        $( idle $idle:expr; )?
        $( remake $remake:expr; )?
        $( callentry $callentry:expr; )?
    ) => {
        $crate::port_numbers! { $body 0;
            $($($entry $entry_name)*)?
            $($($back $back_name $back_shape,)*)?
            $($($out $out_name $out_shape,)*)?
        }

        #[doc = concat!("The class record of ", $name, ".")]
        pub static CLASS: $crate::class::Class = $crate::class::Class::new::<$body>(
            $name,
            $purpose.trim_ascii(),
            &[
                $($( $crate::class::Element {
                    name: $entry_name,
                    kind: $crate::class::Kind::Callentry,
                    default: "",
                    shape: $crate::shape!($($entry_shape)?),
                }, )*)?
                $($( $crate::class::Element {
                    name: $back_name,
                    kind: $crate::class::Kind::Callback,
                    default: $back_default,
                    shape: $crate::shape!($back_shape),
                }, )*)?
                $($( $crate::class::Element {
                    name: $out_name,
                    kind: $crate::class::Kind::Callout,
                    default: $out_default,
                    shape: $crate::shape!($out_shape),
                }, )*)?
            ],
        );

        impl $crate::class::Body for $body {
            type Spec = $spec;
            type Error = $error;
            fn class() -> &'static $crate::class::Class {
                &CLASS
            }
            fn make(
                spec: Self::Spec,
                header: &'static $crate::class::Header,
            ) -> Result<Self, Self::Error> {
                ($make)(spec, header)
            }
            $(
                fn renew(
                    &mut self,
                    spec: Self::Spec,
                    header: &'static $crate::class::Header,
                ) -> Result<(), Self::Error> {
                    ($renew)(self, spec, header)
                }
            )?
            $(
                fn idle(&mut self) {
                    ($idle)(self)
                }
            )?
            $(
                fn remake(&self, port: usize) -> Result<(), $crate::RoutineError> {
                    ($remake)(self, port)
                }
            )?
            $(
                fn callentry(
                    this: &$crate::class::Ref<Self>,
                    number: usize,
                ) -> Option<$crate::interfacer::Target> {
                    ($callentry)(this, number)
                }
            )?
        }
    };
}

/// The shape of a signature; without one, that of what is called from Rust only.
#[doc(hidden)]
#[macro_export]
macro_rules! shape {
    () => {
        <$crate::signature::Direct as $crate::signature::Signature>::SHAPE
    };
    ($signature:ty) => {
        <$signature as $crate::signature::Signature>::SHAPE
    };
}

/// Numbers the ports of a class in the order of its definition: first callentries, then what can be linked.
#[doc(hidden)]
#[macro_export]
macro_rules! port_numbers {
    ($body:ident $number:expr;) => {};
    ($body:ident $number:expr; $port:ident $name:literal $shape:ty, $($rest:tt)*) => {
        #[doc = concat!("The port `", $name, "`.")]
        #[allow(dead_code, reason = "not every class uses all its ports")]
        pub const $port: $crate::class::Port<$body, $shape> = $crate::class::Port::new($number);
        $crate::port_numbers! { $body $number + 1; $($rest)* }
    };
    ($body:ident $number:expr; $port:ident $name:literal $($rest:tt)*) => {
        #[doc = concat!("Number of the callentry `", $name, "`.")]
        #[allow(dead_code, reason = "not every class uses the numbers of all its callentries")]
        pub const $port: usize = $number;
        $crate::port_numbers! { $body $number + 1; $($rest)* }
    };
}
