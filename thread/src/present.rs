//! The Thread and Clock quajects as `/syn` shows them.
//!
//! Source: dissertation, tables 4.1 and 4.3.

pub(crate) mod thread {
    quaject::quaject! {
        /// Implements threads
        presence ThreadQuaject = "Thread" {
            callentry {
                SUSPEND = "suspend", RESUME = "resume", STOP = "stop", STEP = "step", INTERRUPT = "interrupt",
                SIGNAL = "signal", SETSIGNAL = "setsignal", WAIT = "wait", NOTIFY = "notify",
            }
            callout { CALL = "call[i]" ("leave by the slow stub") }
        }
    }
}

pub(crate) mod clock {
    quaject::quaject! {
        /// The system clock
        presence ClockQuaject = "Clock" {
            callentry { GETTIME = "gettime", ALARM = "alarm", CANCEL = "cancel" }
            callout { CALL = "call[i]" ("nothing: an alarm is set with its procedure") }
        }
    }
}
