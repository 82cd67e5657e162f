#!/usr/bin/env bash
# The Host backend for AArch64: compiled, with its sums in NEON, and the sums compared with the plain
# reference under an emulator. Without Bazel, from comm's root:
#
#   bash tests/host/aarch64.sh
#
# Needs Debian's g++-aarch64-linux-gnu, qemu-user and doctest-dev.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

compile() { # SOURCE OPTIONS...: the flags of our own build, and those of //comm/backends:host_reduce
  aarch64-linux-gnu-g++ -std=c++20 -I. -Icomm/backends/default/host -idirafter /usr/include \
    -Wall -Wextra -Wpedantic -Wconversion -Werror -ffp-contract=off "${@:2}" -c "$1" \
    -o "$out/$(tr / _ <<<"$1").o"
}
export -f compile
export out

# From /usr/include come doctest and libsodium's header, which are the same for both processors.
printf '%s\n' comm/*.cc comm/backends/host/*.cc comm/health/*.cc comm/launch/*.cc comm/rendezvous/*.cc |
  grep -v /reduce | xargs -P "$(nproc)" -I{} bash -c 'compile {} -O1'
printf '%s\n' comm/backends/host/reduce*.cc | xargs -P "$(nproc)" -I{} bash -c 'compile {} -O3 -fno-trapping-math'
printf '%s\n' tests/host/reduce_test.cc tests/host/float_types_test.cc |
  xargs -P "$(nproc)" -I{} bash -c 'compile {} -O1'

sums=$(aarch64-linux-gnu-objdump -d "$out/comm_backends_host_reduce_baseline.cc.o" | grep -c 'fadd.*v[0-9]*\.4s') || true
echo "additions of four floats at a time: $sums"
((sums > 0))

for test in reduce_test float_types_test; do
  aarch64-linux-gnu-g++ "$out/tests_host_$test.cc.o" "$out"/comm_backends_host_reduce*.o \
    "$out/comm_status.cc.o" -o "$out/$test"
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$out/$test"
done
