#!/usr/bin/env bash
# A program over Nccl has one NCCL: the shared library. Nothing in the program itself defines a symbol of
# NCCL's or of CUDA's runtime.
#   symbols_test.sh PROGRAM
set -euo pipefail
program=$1

needed=$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }')
[[ $(grep -c '^libnccl\.so' <<<"$needed") == 1 ]] || { echo "FAILED: it needs: $needed" && exit 1; }
[[ $(grep -c '^libcudart\.so' <<<"$needed") == 1 ]] || { echo "FAILED: it needs: $needed" && exit 1; }

symbols=$(nm "$program")
grep -q ' U ncclAllReduce' <<<"$symbols" || { echo "FAILED: it does not call NCCL at all" && exit 1; }
if grep -E ' [TtWwDdBbVv] (p?nccl[A-Z]|cuda[A-Z])' <<<"$symbols"; then
  echo "FAILED: it defines the symbols above, which belong to a library"
  exit 1
fi
