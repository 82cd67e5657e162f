#!/usr/bin/env python3
"""Reads what nvcc makes of the sum kernels: 16-byte loads and stores, and no local memory.

Where cuobjdump is found the machine code (SASS) is read; otherwise PTX, and what ptxas says of stack
and spills while it makes the machine code. Without nvcc the test fails: it never passes unseen.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

KERNELS = [
    "comm_%s_add_%s" % (element, kind)
    for element in ("bf16", "f16", "f32")
    for kind in ("inplace", "rank_sum")
]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    if done.returncode != 0:
        sys.exit("FAILED: %s\n%s" % (" ".join(command), done.stdout))
    return done.stdout


def bodies(text, start):
    """Kernel name to its text; `start` has one group, the name."""
    parts = re.split(start, text)
    return dict(zip(parts[1::2], parts[2::2]))


def check(found, where, load, store, local):
    problems = []
    for kernel in KERNELS:
        body = found.get(kernel)
        if body is None:
            problems.append("%s: no such kernel" % kernel)
            continue
        if len(re.findall(load, body)) < 2:
            problems.append("%s: fewer than two 16-byte loads" % kernel)
        if not re.search(store, body):
            problems.append("%s: no 16-byte store" % kernel)
        if re.search(local, body):
            problems.append("%s: uses local memory" % kernel)
    if problems:
        sys.exit("FAILED, in %s:\n  %s" % (where, "\n  ".join(problems)))
    print("ok: %d kernels in %s" % (len(KERNELS), where))


def check_architecture(options, architecture, folder):
    compiler = [options.nvcc, "-std=c++20", "-O3", "-ccbin=g++", "-I."]
    compiler += ["-I" + include for include in options.include]
    ptx, cubin = os.path.join(folder, "sum.ptx"), os.path.join(folder, "sum.cubin")
    run(*compiler, "-arch=compute_" + architecture, "-ptx", options.source, "-o", ptx)
    with open(ptx, encoding="utf-8") as file:
        found = bodies(file.read(), r"\.entry (\w+)\(")
    check(found, "PTX for " + architecture, r"ld\.global\S*\.v4\.[ufb]32", r"st\.global\S*\.v4\.[ufb]32",
          r"\.local|ld\.local|st\.local")

    said = run(*compiler, "-arch=sm_" + architecture, "-cubin", "-Xptxas=-v", options.source, "-o", cubin)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    if len(frames) != len(KERNELS) or any(number != "0" for frame in frames for number in frame):
        sys.exit("FAILED: ptxas for sm_%s reports stack or spills, or not on each kernel:\n%s" % (architecture, said))
    print("ok: no stack, no spills for sm_" + architecture)

    if options.cuobjdump:
        sass = run(options.cuobjdump, "-sass", cubin)
        check(bodies(sass, r"Function : (\w+)"), "SASS for " + architecture, r"LDG\.\S*128", r"STG\.\S*128",
              r"\b(LDL|STL)\b")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--cuobjdump", default="")
    parser.add_argument("--architecture", action="append", default=[])
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("source")
    options = parser.parse_args()
    if not options.nvcc or not options.architecture:
        sys.exit("FAILED: nvcc was not found, so nothing can be said of the kernels")
    for architecture in options.architecture:
        with tempfile.TemporaryDirectory() as folder:
            check_architecture(options, architecture, folder)


if __name__ == "__main__":
    main()
