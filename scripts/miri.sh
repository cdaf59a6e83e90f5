#!/bin/sh
# Runs the host tests that need no real machine code under Miri: those of the packages in MIRI_PACKAGES. Installs what it needs;
# exits 75 when that cannot be had.
set -eu
cd "$(dirname "$0")/.."
missing() {
    echo "miri.sh: no nightly toolchain with Miri here, and none can be fetched" >&2
    exit 75
}
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal || missing
rustup component list --toolchain nightly --installed | grep -q '^miri' ||
    rustup component add --toolchain nightly miri rust-src || missing
# Addresses that travel as words are exposed and taken up again: the permissive rules say so without a warning each.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
# The intrinsic of a 16-byte exchange is allowed only where the target has the instruction.
export RUSTFLAGS="${RUSTFLAGS:-} -Ctarget-feature=+cmpxchg16b"
set -- $(printf -- '-p %s ' ${MIRI_PACKAGES:-sync lab codegen}) "$@"
exec cargo +nightly miri test --target-dir target/miri "$@"
