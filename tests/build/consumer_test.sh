#!/bin/bash
# Builds and runs the workspace in tests/consumer with each backend named, and with one of its own.
#
#   tests/build/consumer_test.sh single_gpu host nccl
#
# It runs Bazel inside of Bazel's test, so it needs the source tree and is not sandboxed.
set -euo pipefail

# In a test the working directory has only links to some of the sources.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cd "$here/../consumer"

scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/consumer.XXXXXX")
bazel() { ../../bazelw --output_base="$scratch/base" --max_idle_secs=60 "$@"; }
cleanup() {
  bazel shutdown || true
  chmod -R u+w "$scratch" && rm -rf "$scratch"
}
trap cleanup EXIT

# The engine prints the backend that it was built with.
expect() { # CLASS FLAG...
  local class=$1 out
  shift
  bazel build --experimental_convenience_symlinks=ignore --nosandbox_debug --jobs=2 "$@" //:engine
  out=$("$(bazel info bazel-bin)/engine")
  echo "with '$*' the engine says: $out"
  if [[ $out != *"$class"*"rank 0 of 1"* ]]; then
    echo "FAILED: expected the engine to run $class"
    exit 1
  fi
}

# Links the real libraries; where there is no GPU or driver the engine has to say so.
expect_nccl() {
  local out status=0
  bazel build --experimental_convenience_symlinks=ignore --nosandbox_debug --jobs=2 \
    --config=nccl --@comm//bazel:cuda_architectures=80 //:engine
  out=$("$(bazel info bazel-bin)/engine" 2>&1) || status=$?
  echo "with --config=nccl the engine says: $out"
  if [[ $status -eq 0 && $out == *comm::Nccl*"rank 0 of 1"* ]]; then return; fi
  if [[ $status -eq 1 && $out =~ (driver|GPU|device) ]]; then return; fi
  echo "FAILED: expected the engine to run comm::Nccl, or to say what this machine lacks"
  exit 1
}

expect_refusal() { # WORDS FLAG...
  local words=$1 out
  shift
  if out=$(bazel build --nobuild "$@" //:engine 2>&1) || [[ $out != *"$words"* ]]; then
    echo "FAILED: expected '$*' to be refused with '$words':"
    echo "$out"
    exit 1
  fi
}

for backend in "$@"; do
  case $backend in
    single_gpu) expect comm::SingleGpu ;;
    host) expect comm::Host --config=host ;;
    nccl) expect_nccl ;;
    *) echo "FAILED: no such backend: $backend" && exit 1 ;;
  esac
done
expect "comm::Recorded<comm::Checked<comm::Logged<comm::Host> > >" --config=host --@comm//comm:checked \
  --@comm//comm:recorded
expect engine::OwnBackend --@comm//comm:default_backend=//:own_backend
expect_refusal "unknown value; use one of: host, nccl, single_gpu" --@comm//comm:backend=hst
CUDA_HOME=/nonexistent expect_refusal "this machine lacks the CUDA headers" --config=nccl
