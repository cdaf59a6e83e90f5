//! Links the kernel at its place, when it is built for the bare machine.
fn main() {
    println!("cargo::rerun-if-changed=linker.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the manifest directory");
        println!("cargo::rustc-link-arg-bins=-T{dir}/linker.ld");
        // The host tool makes the list of addresses from them by which the kernel moves itself.
        println!("cargo::rustc-link-arg-bins=--emit-relocs");
    }
}
