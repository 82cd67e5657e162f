#!/bin/bash
# comm_perf over Nccl on simulated GPUs: all operations, every element compared in both ways of calling,
# through device memory; a use of CUDA or NCCL that is wrong on real ones fails the program.
set -eu
perf=$1
export COMM_SIM_STRICT=fail

fail() { echo "FAILED: $*" && cat out.txt && exit 1; }

columns='^# +size +count +type +redop +root +time +p99 +algbw +busbw +#wrong +time +p99 +algbw +busbw +#wrong$'
for operation in all_reduce all_gather reduce_scatter broadcast reduce gather scatter all_to_all send_recv; do
  "$perf" "$operation" -b 24 -e 22K -f 30 -t bfloat16 -n 1 -w 0 --ranks 3 > out.txt || fail "$operation"
  grep -q '^# wrong elements: 0 OK$' out.txt || fail "$operation is wrong"
  grep -q "backend nccl, 3 ranks" out.txt || fail "not over Nccl"
  grep -qE "$columns" out.txt || fail "the columns are not those of nccl-tests"
  # Three sizes; all columns, in place too where the operation has that.
  [ "$(grep -c '^ ' out.txt)" -eq 3 ] || fail "$operation: rows"
  awk '/^ / && NF - ($NF == "~") != 15 { exit 1 }' out.txt || fail "$operation: columns"
  case $operation in all_to_all | send_recv) missing=15 ;; *) missing=0 ;; esac
  [ "$(grep -o N/A out.txt | wc -l)" -eq "$missing" ] || fail "$operation: what is not measured"
done
"$perf" barrier -n 1 --ranks 2 > out.txt || fail barrier
"$perf" all_reduce -o avg -t half -e 1K -f 16 -n 1 --ranks 2 --symmetric > out.txt || fail "symmetric"
"$perf" all_reduce -e 1K -f 16 -n 1 --ranks 2 --fresh --bound > out.txt || fail "fresh"
grep -q '  *N/A  N/A  N/A$' out.txt || fail "a bound of GPUs that nobody measured"
"$perf" all_reduce -e 64 --ranks 1 -n 1 --backend single_gpu > out.txt || fail "single_gpu"
echo "comm_perf: all operations right over Nccl"
