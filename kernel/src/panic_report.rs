//! The panic report's view of the rooms above `machine`.
//!
//! *Interface*: [`link`]; the panic handler.

use core::fmt::Write;
use machine::panic_report::Callouts;

static CALLOUTS: Callouts = Callouts { who, image };

/// Links the report's callouts.
pub fn link() {
    machine::panic_report::link(&CALLOUTS);
}

fn who(out: &mut dyn Write) {
    let Some(tte) = thread::current_opt() else {
        return;
    };
    let mut buffer = [0; thread::NAME_LEN];
    // A report that cannot be written is nobody's to handle.
    let _ = write!(out, "thread {} ({})", tte.name(&mut buffer), tte.serial());
}

fn image(address: usize, out: &mut dyn Write) -> bool {
    let Some(image) = codegen::image_at(address) else {
        return false;
    };
    let _ = write!(
        out,
        "[{} {}]+{:#x}",
        image.class,
        image.name,
        address - image.entry
    );
    true
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    match info.location() {
        Some(at) => machine::panic_report::panic(format_args!("{} ({at})", info.message())),
        None => machine::panic_report::panic(format_args!("{}", info.message())),
    }
}
