#!/usr/bin/env bash
# The fuzz target under libFuzzer with AddressSanitizer and UBSan, for a bounded time, beginning with
# the corpus. FUZZ_SECONDS makes it longer.
#   libfuzzer_test.sh CORPUS_FILE SOURCE...
set -euo pipefail
corpus=$(dirname "$1")
shift
scratch=${TEST_TMPDIR:-$(mktemp -d)}
clang++ -std=c++20 -O1 -g -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
  "$@" -o "$scratch/fuzz"
mkdir -p "$scratch/found"
cp "$corpus"/* "$scratch/found"
"$scratch/fuzz" -max_total_time="${FUZZ_SECONDS:-10}" -max_len=4096 -print_final_stats=1 \
  -artifact_prefix="$scratch/" "$scratch/found"
