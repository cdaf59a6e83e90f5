//! Links the trials as the kernel is linked, when they are built for the bare machine.
fn main() {
    let script = "../kernel/linker.ld";
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the manifest directory");
        println!("cargo::rustc-link-arg-bins=-T{dir}/{script}");
        // The host tool makes the list of addresses from them by which the kernel moves itself.
        println!("cargo::rustc-link-arg-bins=--emit-relocs");
    }
}
