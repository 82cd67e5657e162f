#!/usr/bin/env python3
"""Compiles the Nccl backend against one NCCL header of each minor version, 2.18 to the newest.

    tests/nccl/headers_matrix.py [--cuda INCLUDE]... [--cache FOLDER] [--oldest 2.18] [--nvcc PATH]

The headers come from the wheels nvidia-nccl-cu12 and -cu13, downloaded by pip into the cache
(~/.cache/comm/nccl_headers) and nowhere else. Each header is compiled with g++, clang++ and, where
nvcc is there, as nvcc's host pass. Needs the network, so it is no part of `bazel test //...`.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

WHEELS = ["nvidia-nccl-cu12", "nvidia-nccl-cu13"]
FLAGS = ["-std=c++20", "-fsyntax-only", "-fno-exceptions", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)


def versions(wheel):
    """All released versions, as pip lists them."""
    listed = run(sys.executable, "-m", "pip", "index", "versions", wheel)
    match = re.search(r"Available versions: (.*)", listed.stdout)
    if not match:
        sys.exit("FAILED: pip lists no versions of %s:\n%s" % (wheel, listed.stdout))
    return [version.strip() for version in match.group(1).split(",")]


def newest_of_each_minor(listed, oldest):
    """{(2, 28): "2.28.9", ...}"""
    chosen = {}
    for version in listed:
        numbers = tuple(int(part) for part in re.findall(r"\d+", version))
        if numbers[:2] >= oldest:
            chosen[numbers[:2]] = max(chosen.get(numbers[:2], ((), "")), (numbers, version))
    return {minor: version for minor, (_, version) in chosen.items()}


def header_folder(wheel, version, cache):
    """The folder with nccl.h of that version; downloaded if it is not there yet."""
    folder = os.path.join(cache, "%s-%s" % (wheel, version))
    if os.path.exists(os.path.join(folder, "nccl.h")):
        return folder
    download = os.path.join(cache, "download")
    shutil.rmtree(download, ignore_errors=True)
    done = run(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", download, "%s==%s" % (wheel, version))
    wheels = glob.glob(os.path.join(download, "*.whl"))
    if done.returncode != 0 or not wheels:
        sys.exit("FAILED: %s %s could not be downloaded:\n%s" % (wheel, version, done.stdout))
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(wheels[0]) as archive:
        for name in archive.namelist():
            if re.search(r"nccl/include/.*\.h$", name):
                target = os.path.join(folder, name.split("nccl/include/")[1])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(archive.read(name))
    shutil.rmtree(download, ignore_errors=True)
    return folder


def compilers(nvcc):
    found = [["g++"] + FLAGS, ["clang++"] + FLAGS]
    if nvcc:
        found.append([nvcc, "-std=c++20", "-x", "cu", "-ccbin=g++", "-arch=sm_80", "-o", os.devnull, "-c"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="append", default=[])
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/comm/nccl_headers"))
    parser.add_argument("--oldest", default="2.18")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    options = parser.parse_args()
    nvcc = options.nvcc if os.path.exists(options.nvcc) else ""
    cuda = options.cuda or ["/usr/local/cuda/include"]
    os.makedirs(options.cache, exist_ok=True)
    # Those that call NCCL; the others see no more of its header than these.
    calls = re.compile(r"\bnccl(Comm|Group|Red|Mem|All|Broadcast|Send|Recv|Reduce|Get)\w*\(")
    sources = [path for path in sorted(glob.glob("comm/backends/nccl/*.cc")) if calls.search(open(path, encoding="utf-8").read())]
    if not sources:
        sys.exit("FAILED: run it in comm's root folder")

    oldest = tuple(int(part) for part in options.oldest.split("."))
    failures, compiled = [], 0
    for wheel in WHEELS:
        for _, version in sorted(newest_of_each_minor(versions(wheel), oldest).items()):
            nccl = header_folder(wheel, version, options.cache)
            for include in cuda:
                for compiler in compilers(nvcc):
                    # nvcc's host pass takes long; what the face includes is what engines compile.
                    files = ["comm/backends/nccl/nccl.cc"] if compiler[0] == nvcc else sources
                    for source in files:
                        done = run(*compiler, "-I.", "-isystem", nccl, "-isystem", include, source)
                        compiled += 1
                        if done.returncode != 0:
                            failures.append("%s with NCCL %s, %s, %s:\n%s" % (source, version, include, compiler[0], done.stdout))
            print("%s %s: %s" % (wheel, version, "ok" if not failures else "%d failures so far" % len(failures)), flush=True)
    print("%d compilations, %d failed" % (compiled, len(failures)))
    for failure in failures[:5]:
        print(failure)
    sys.exit(1 if failures or not compiled else 0)


if __name__ == "__main__":
    main()
