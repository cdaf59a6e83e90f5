#!/bin/sh
# Runs the host tests that need no real machine code under Miri. Installs what it needs.
set -eu
cd "$(dirname "$0")/.."
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
rustup component list --toolchain nightly --installed | grep -q '^miri' ||
    rustup component add --toolchain nightly miri rust-src
# Addresses that travel as words are exposed and taken up again: the permissive rules say so without a warning each.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-permissive-provenance"
# The intrinsic of a 16-byte exchange is allowed only where the target has the instruction.
export RUSTFLAGS="${RUSTFLAGS:-} -Ctarget-feature=+cmpxchg16b"
exec cargo +nightly miri test --target-dir target/miri -p sync -p codegen "$@"
