#!/usr/bin/env bash
# What needs a GPU: comm's kernels and real NCCL on one rank. Without Bazel, from comm's root:
#
#   bash tests/gpu/run.sh
#   bash tests/gpu/run.sh --build-only      needs no GPU
#
# Needs nvcc, NCCL, doctest and libsodium (CUDA_HOME, NCCL_HOME if they are not in /usr/local/cuda).
# Where there is no GPU it says so and ends with status 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cuda=${CUDA_HOME:-/usr/local/cuda}
nccl=${NCCL_HOME:-$cuda}
arch=native
if [[ ${1:-} == --build-only ]]; then
  arch=sm_90
elif ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
  echo "NOT RUN: this machine has no NVIDIA GPU, and these tests are about one"
  exit 77
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
flags=(-std=c++20 -O2 -I. -isystem "$cuda/include" -isystem "$nccl/include")
"$cuda/bin/nvcc" -std=c++20 -O3 "-arch=$arch" -I. -c comm/kernels/sum.cu -o "$out/sum.o"
for source in comm/*.cc comm/backends/nccl/*.cc comm/health/*.cc comm/launch/*.cc \
  comm/rendezvous/*.cc tests/gpu/*.cc; do
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
  g++ "${flags[@]}" -c "$source" -o "$out/${source//\//_}.o" &
done
wait
g++ -o "$out/gpu_test" "$out"/*.o -L"$cuda/lib64" -L"$cuda/lib" -L"$nccl/lib" \
  -Wl,-rpath,"$cuda/lib64:$cuda/lib:$nccl/lib" -lcudart -l:libnccl.so.2 -lsodium -pthread -ldl
[[ $arch != native ]] || timeout 300 "$out/gpu_test"
