//! The editor as a quaject: its links, and the routine by which it shows what was typed.
//!
//! *Interface*: callout `echo` gets each byte that the editor shows; callout `group` belongs to the routine
//! of readers. [`Quaject::echo`] hands bytes on: the code that `echo` is linked to stands in its routine. One
//! party at a time shows bytes.
//!
//! Source: dissertation, sections 3.2.2, 4.1.3 and 4.4.2.
//!
//! *Unsafe*: safety contract of the routine; a buffer's bytes in the test.

use crate::kit::assembly::{Assembly, Made, Published};
use crate::kit::class::{Header, Holder};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature;
use codegen::{Class, dynasm};

/// The contract of the routine: a byte.
type EchoFn = extern "sysv64" fn(byte: usize);

/// One editor's.
pub struct Quaject {
    header: &'static Header,
    echo: Published<EchoFn>,
}

crate::quaject! {
    /// Keyboard input editor
    class Quaject = "CookTTYin", spec (), error RoutineError {
        callentry { PUT: signature::Put = "put", READ = "read" }
        callout {
            GROUP: signature::Number = "group" ("leave by the slow exit"),
            ECHOES: signature::Put = "echo" ("nothing is shown"),
        }
    }
    make |(), header| Ok::<_, RoutineError>(Quaject {
        header,
        echo: Published::new(generate(header)?),
    });
    remake Quaject::remake;
}

static CODE: Class = Class::new("editor echo");

impl Quaject {
    fn remake(&self, port: usize) -> Result<(), RoutineError> {
        if port == ECHOES.number() {
            self.echo.publish(generate(self.header)?);
        }
        Ok(())
    }

    /// Hands `bytes` to what `echo` is linked to.
    pub fn echo(&self, bytes: &[u8]) {
        self.echo
            .call(|echo| bytes.iter().for_each(|byte| echo(usize::from(*byte))));
    }
}

fn generate(header: &'static Header) -> Result<Made<EchoFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "echo", Some(Holder::Member(header)));
    if let Some(link) = a.use_link(header, ECHOES.number()) {
        dynasm!(a ; .arch x64 ; mov esi, edi);
        a.place(link, Regs::NONE, None, &[]);
    }
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: it keeps the System V convention, and does what the linked callentry does.
    unsafe { a.seal(None) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::buffer_out::{self, BufferOut};
    use crate::catalogue::filter::upper::Upper;
    use crate::kit::by_name::{insert, remove};
    use crate::kit::class::create;
    use crate::kit::interfacer::{Function, link, unlink};
    use std::sync::Mutex;

    static SHOWN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    extern "sysv64" fn show(_: usize, bytes: *mut u8, count: usize) -> usize {
        // SAFETY: the buffer hands out `count` bytes.
        let bytes = unsafe { core::slice::from_raw_parts(bytes, count) };
        SHOWN.lock().unwrap().extend_from_slice(bytes);
        count
    }

    #[test]
    fn the_echo_goes_where_it_is_linked_to() {
        codegen::host::link();
        let editor = create::<Quaject>(()).unwrap();
        editor.echo(b"lost");
        let buffer = create::<BufferOut>(4).unwrap();
        let shown = Function::write(&"show", show, 0);
        link(&buffer, buffer_out::FLUSH_OUT, shown).unwrap();
        let in_line = link(&editor, ECHOES, buffer_out::put(&buffer)).unwrap();
        assert!(in_line);
        editor.echo(b"shown");
        let upper = create::<Upper>(()).unwrap();
        insert(&editor, "echo", &upper).unwrap();
        editor.echo(b", loud");
        remove(&editor, "echo", upper.header().number()).unwrap();
        editor.echo(b", and not");
        unlink(&editor, ECHOES).unwrap();
        editor.echo(b"lost");
        buffer.flush();
        assert_eq!(*SHOWN.lock().unwrap(), b"shown, LOUD, and not");
    }
}
