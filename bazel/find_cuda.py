#!/usr/bin/env python3
"""Finds the CUDA toolkit and NCCL on this machine; prints what it found as one JSON object.

Looked at, in this order; the first that has the headers wins:
  CUDA   $CUDA_HOME or $CUDA_PATH (if set, nothing else), /usr/local/cuda, the toolkit of the nvcc on
         PATH, /usr/local, /usr (a distribution's packages), pip wheels
  NCCL   $NCCL_HOME (if set, nothing else), that CUDA toolkit, /usr/local, /usr, pip wheels

Wheels are those of this python3 (nvidia-cuda-runtime, nvidia-cuda-nvcc, nvidia-nccl-cu12, -cu13, ...).
"missing" says in words what was not found; an empty list means that all is there.
"""

import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys

TOOLKIT = "/usr/local/cuda"
SYSTEM = ["/usr/local", "/usr"]
OLDEST_ARCHITECTURE = 75  # Turing: the oldest that CUDA 13 builds for.


def wheels():
    """The roots inside pip's nvidia/ packages: each has some of include/, lib/ and bin/."""
    places = dict.fromkeys(sys.path + [site.getusersitepackages()])
    return [root for place in places for root in sorted(glob.glob(os.path.join(place, "nvidia/*/")))]


def cuda_candidates():
    """Lists of roots; the roots of one list belong together."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            return [[os.environ[name]]]
    nvcc = shutil.which("nvcc")
    on_path = [[os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))]] if nvcc else []
    return [[TOOLKIT]] + on_path + [[root] for root in SYSTEM] + [wheels()]


def nccl_candidates(toolkit):
    if os.environ.get("NCCL_HOME"):
        return [[os.environ["NCCL_HOME"]]]
    return [toolkit] + [[root] for root in SYSTEM] + [wheels()]


def find(roots, *patterns):
    """The first file that matches under any root; of several in one folder the shortest name, which
    is the one that programs are linked to (libnccl.so.2, not libnccl.so.2.28.9)."""
    for root in roots:
        for pattern in patterns:
            hits = glob.glob(os.path.join(root, pattern))
            if hits:
                return os.path.abspath(min(hits, key=lambda hit: (len(hit), hit)))
    return ""


def first_with(candidates, *patterns):
    """The first list of roots in which the patterns match; else the first list."""
    return next((roots for roots in candidates if find(roots, *patterns)), candidates[0])


def library(roots, name):
    folders = ("lib64", "lib", "targets/*-linux/lib", "lib/*-linux-gnu")
    return find(roots, *("%s/%s.so.[0-9]*" % (folder, name) for folder in folders))


def include_folder(roots, header):
    found = find(roots, "include/" + header, "targets/*-linux/include/" + header)
    return found[: -len("/" + header)]


def define(header, name):
    """The number that a header gives a macro, as text; "" where there is none."""
    if not os.path.exists(header):
        return ""
    with open(header, encoding="utf-8", errors="replace") as file:
        match = re.search(r"^\s*#\s*define\s+%s\s+(\d+)" % name, file.read(), re.MULTILINE)
    return match.group(1) if match else ""


def architectures(nvcc):
    """The compute capabilities that this nvcc builds for: "75", "80", ..."""
    command = [nvcc, "--list-gpu-arch"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    numbers = sorted({int(number) for number in re.findall(r"compute_(\d+)", listed)})
    return [str(number) for number in numbers if number >= OLDEST_ARCHITECTURE]


def find_all():
    toolkit = first_with(cuda_candidates(), "include/cuda_runtime_api.h")
    nccl = first_with(nccl_candidates(toolkit), "include/nccl.h")
    # Wheels spread one toolkit over several include folders.
    includes = [include_folder(toolkit, name) for name in ("cuda_runtime_api.h", "crt/host_config.h")]
    cuda_includes = [folder for folder in dict.fromkeys(includes) if folder]
    nccl_include = include_folder(nccl, "nccl.h")
    nvcc = find(toolkit, "bin/nvcc") or shutil.which("nvcc") or ""
    found = {
        "cuda_includes": cuda_includes,
        "cuda_version": define(includes[0] + "/cuda.h", "CUDA_VERSION"),
        "cudart": library(toolkit, "libcudart"),
        "cuda_driver_stub": find(toolkit, "lib64/stubs/libcuda.so", "lib*/stubs/libcuda.so"),
        "nccl_include": nccl_include,
        "nccl_version": define(nccl_include + "/nccl.h", "NCCL_VERSION_CODE"),
        "nccl": library(nccl, "libnccl"),
        "nvcc": nvcc,
        "cuobjdump": find(toolkit, "bin/cuobjdump") or shutil.which("cuobjdump") or "",
        "architectures": architectures(nvcc) if nvcc else [],
    }
    needed = {
        "cuda_includes": "the CUDA headers (cuda_runtime_api.h)",
        "cudart": "the CUDA runtime (libcudart.so)",
        "nvcc": "the CUDA compiler (nvcc)",
        "nccl_include": "the NCCL header (nccl.h)",
        "nccl": "the NCCL library (libnccl.so)",
    }
    found["missing"] = [text for key, text in needed.items() if not found[key]]
    return found


if __name__ == "__main__":
    json.dump(find_all(), sys.stdout, indent=2)
    print()
