#!/usr/bin/env python3
"""Compiles the Nccl backend and the simulation against every NCCL and CUDA that they promise to work with.

    tests/nccl/headers_matrix.py [--cache FOLDER] [--nvcc PATH]

One NCCL header of each minor version from 2.18 on, with the newest CUDA; one CUDA of each minor version
from 12.0 on, with the newest NCCL. They come from NVIDIA's wheels, by pip; what is kept of a wheel (in
~/.cache/comm/headers) is its headers. g++ and clang++ compile the backend with every NCCL, nvcc's host
pass what engines include of it; at the oldest and the newest everything is compiled by all. The sources
of a part are one translation unit: 30 times faster.

Needs the network and a few hundred MB of disk for a moment, so it is not in `bazel test //...`, but .ci/run runs it.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

OLDEST_NCCL = (2, 18)
OLDEST_CUDA = (12, 0)
NCCL_WHEELS = ["nvidia-nccl-cu12"]  # The header in -cu13's is the same.
# Each needs the other, of one minor version.
CUDA_WHEELS = [("nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12"), ("nvidia-cuda-runtime", "nvidia-cuda-crt")]

FLAGS = ["-std=c++20", "-fsyntax-only", "-fno-exceptions", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
NVCC_FLAGS = ["-std=c++20", "-x", "cu", "-ccbin=g++", "-Werror=all-warnings", "-c", "-o", os.devnull]

PARTS = {
    "backend": ["comm/backends/nccl/*.cc"],
    "simulated NCCL": ["comm/testing/simulated/nccl/*.cc"],
    "simulated CUDA": ["comm/testing/simulated/*.cc", "comm/testing/simulated/core/*.cc", "comm/testing/simulated/cuda/*.cc", "comm/testing/simulated/driver/*.cc"],
    "face": ["comm/backends/nccl.h"],
}


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)


def pip(*arguments):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *arguments)


def newest_of_each_minor(wheel, oldest):
    """{(2, 28): "2.28.9", ...}, as pip lists the releases."""
    listed = pip("index", "versions", wheel)
    match = re.search(r"Available versions: (.*)", listed.stdout)
    if not match:
        sys.exit("FAILED: pip lists no versions of %s; is the package index within reach?\n%s" % (wheel, listed.stdout))
    chosen = {}
    for version in match.group(1).split(","):
        numbers = tuple(int(part) for part in re.findall(r"\d+", version))
        if numbers[:2] >= oldest:
            chosen[numbers[:2]] = max(chosen.get(numbers[:2], ((), "")), (numbers, version.strip()))
    return {minor: version for minor, (_, version) in chosen.items()}


def headers_of(wheel, version, cache):
    """The include folder of that wheel; downloaded if it is not there yet."""
    folder = os.path.join(cache, "%s-%s" % (wheel, version))
    if os.path.isdir(folder):
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        done = pip("download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", scratch, "%s==%s" % (wheel, version))
        wheels = glob.glob(os.path.join(scratch, "*.whl"))
        if done.returncode != 0 or not wheels:
            raise RuntimeError("%s %s could not be downloaded:\n%s" % (wheel, version, done.stdout))
        made = os.path.join(scratch, "include")
        with zipfile.ZipFile(wheels[0]) as archive:
            for name in archive.namelist():
                if "/include/" in name and not name.endswith("/"):
                    target = os.path.join(made, name.split("/include/")[1])
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "wb") as file:
                        file.write(archive.read(name))
        os.rename(made, folder)
    return folder


def read_headers(cache, workers):
    """[("NCCL 2.18.3", [folder])...], [("CUDA 12.0.146", [folder, folder])...], oldest first."""
    nccl = [("NCCL " + version, [(wheel, version)]) for wheel in NCCL_WHEELS for _, version in sorted(newest_of_each_minor(wheel, OLDEST_NCCL).items())]
    cuda = []
    for runtime, compiler in CUDA_WHEELS:
        compilers = newest_of_each_minor(compiler, OLDEST_CUDA)
        for minor, version in sorted(newest_of_each_minor(runtime, OLDEST_CUDA).items()):
            if minor not in compilers:
                sys.exit("FAILED: %s has %d.%d, %s does not" % (runtime, *minor, compiler))
            cuda.append(("CUDA " + version, [(runtime, version), (compiler, compilers[minor])]))
    if not nccl or not cuda:
        sys.exit("FAILED: the package index offers no NCCL, or no CUDA")
    wheels = [wheel for _, needed in nccl + cuda for wheel in needed]
    folders = dict(zip(wheels, workers.map(lambda wheel: headers_of(*wheel, cache), wheels)))
    return [[(name, [folders[wheel] for wheel in needed]) for name, needed in found] for found in (nccl, cuda)]


def sources(part):
    found = sorted(path for pattern in PARTS[part] for path in glob.glob(pattern))
    if not found:
        sys.exit("FAILED: %s has no sources; run it in comm's root folder" % part)
    return found


def include(folders):
    return ["-I."] + [word for folder in folders for word in ("-isystem", folder)]


def compilations(nccl, cuda, units, nvcc):
    """(what, command) of each."""
    newest_nccl, newest_cuda = nccl[-1], cuda[-1]
    for name, folders in nccl:
        at_an_end = name in (nccl[0][0], newest_nccl[0])
        for part in ("backend", "simulated NCCL"):
            for compiler in ("g++", "clang++") if part == "backend" or at_an_end else ("g++",):
                yield "%s with %s" % (part, name), [compiler, *FLAGS, *include(folders + newest_cuda[1]), units[part]]
        part = "backend" if at_an_end else "face"  # nvcc takes long over all of it.
        yield "%s with %s" % (part, name), [nvcc, *NVCC_FLAGS, *include(folders), units[part]]
    for name, folders in cuda:
        at_an_end = name in (cuda[0][0], newest_cuda[0])
        for part in ("backend", "simulated CUDA"):
            for compiler in ("g++", "clang++") if at_an_end else ("g++",):
                yield "%s with %s" % (part, name), [compiler, *FLAGS, *include(folders + newest_nccl[1]), units[part]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/comm/headers"))
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        try:
            nccl, cuda = read_headers(options.cache, workers)
        except RuntimeError as error:
            sys.exit("FAILED: %s" % error)
        print("%s; %s: headers there after %d s" % (", ".join(name for name, _ in nccl), ", ".join(name for name, _ in cuda), time.monotonic() - started), flush=True)
        units = {}
        for part in PARTS:
            units[part] = os.path.join(folder, part.replace(" ", "_") + ".cc")
            with open(units[part], "w", encoding="utf-8") as file:
                file.write("".join('#include "%s"\n' % source for source in sources(part)))
        todo = list(compilations(nccl, cuda, units, options.nvcc))
        results = list(workers.map(lambda job: run(*job[1]), todo))
    failed = [(what, command[0], done.stdout) for (what, command), done in zip(todo, results) if done.returncode != 0]
    for what, compiler, output in failed[:5]:
        print("FAILED: %s, %s:\n%s" % (what, compiler, output[:3000]))
    print("%d compilations in %d s, %d failed" % (len(todo), time.monotonic() - started, len(failed)))
    for what, compiler, _ in failed:
        print("  %s, %s" % (what, compiler))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
