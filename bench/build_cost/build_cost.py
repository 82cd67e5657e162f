#!/usr/bin/env python3
"""What comm costs a build: the time to include each public header, the time to compile the smallest
program over each backend, and the size of that program; beside MPI's.

    bench/build_cost/build_cost.py [--rounds 7] [--compilers g++,clang++] [--headers A,B] [--kamping DIR]
                                   [--program NAME=PATH ...]

A figure is processor time, the median over rounds; each round compiles everything once, in turn, so that a slow spell
of the machine hits all. From a header's time (-fsyntax-only) an empty file's is taken, and from a
program's (-O2 -c) that of `int main() {}`. Sizes are of programs given with --program, stripped (bazel
build //bench/build_cost/...), and of MPI's compiled here. A peer that is not installed is named and
left out; KaMPIng, which has headers only, is found where --kamping says.
"""

import argparse
import glob
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = "bench/build_cost/"
FOLDERS = ["", "backends/", "decorators/"]
MORE = ["comm/health/dump_on_signal.h", "comm/launch/launch_config.h", "comm/launch/self_launch.h",
        "comm/rendezvous/listener.h"]
PARTS = ("_calls.h", "_state.h")  # Of another header's.
CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
MPI = {"Open MPI": "mpicxx.openmpi", "MPICH": "mpicxx.mpich"}


def public_headers():
    found = [path for folder in FOLDERS for path in sorted(glob.glob(os.path.join(ROOT, "comm", folder, "*.h")))
             if not path.endswith(PARTS)]
    return [os.path.relpath(path, ROOT) for path in found] + MORE


def mpi_flags(wrapper):
    """The -I flags of a compiler wrapper, to use with any compiler; None where it is not installed."""
    if not shutil.which(wrapper):
        return None
    line = subprocess.run([wrapper, "-show"], capture_output=True, text=True, check=True).stdout
    return [word for word in line.split() if word.startswith("-I")]


def cpu_seconds():
    """Of the children that have ended: compilers use one core, and others on the machine do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Job:
    """Something to compile: `text`, with flags, and the times it took by compiler."""

    def __init__(self, name, text, flags, mode, base=None):
        self.name, self.text, self.flags, self.mode, self.base = name, text, flags, mode, base
        self.times = {}

    def run(self, compiler, folder):
        source = os.path.join(folder, "source.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(self.text)
        command = [compiler, "-std=c++20"] + self.mode + self.flags + [source]
        before = cpu_seconds()
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        took = cpu_seconds() - before
        if done.returncode != 0:
            sys.exit("FAILED: %s\n%s%s" % (" ".join(command), self.text, done.stderr))
        self.times.setdefault(compiler, []).append(took * 1e3)

    def milliseconds(self, compiler):
        median = statistics.median(self.times[compiler])
        return median - self.base.milliseconds(compiler) if self.base else median


def comm_flags():
    flags = ["-I" + ROOT, "-I" + os.path.join(ROOT, "comm/backends/default/single_gpu")]
    has_cuda = os.path.exists(os.path.join(CUDA, "include/cuda_runtime_api.h"))
    return flags + (["-isystem" + os.path.join(CUDA, "include")] if has_cuda else []), has_cuda


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def jobs(options):
    flags, has_cuda = comm_flags()
    if not has_cuda:
        print("# not measured: Nccl, since there is no CUDA in " + CUDA)
    peers = {name: mpi_flags(wrapper) for name, wrapper in MPI.items()}
    for name in [name for name, known in peers.items() if known is None]:
        print("# not measured: " + name)
        del peers[name]
    syntax, compiled = ["-fsyntax-only"], ["-O2", "-c", "-o", os.devnull]
    empty = Job("(empty file)", "", [], syntax)
    alone = Job("(int main() {})", "int main() {}\n", [], compiled)
    headers = [empty]
    programs = [alone]
    for header in options.headers.split(",") if options.headers else public_headers():
        if header != "comm/backends/nccl.h" or has_cuda:
            headers.append(Job(header, '#include "%s"\n' % header, flags, syntax, empty))
    for name in ["single_gpu", "host"] + (["nccl"] if has_cuda else []):
        programs.append(Job(name, read(HERE + name + ".cc"), flags, compiled, alone))
    for name, peer in peers.items():
        headers.append(Job("mpi.h of " + name, "#include <mpi.h>\n", peer, syntax, empty))
        programs.append(Job(name, read(HERE + "mpi.cc"), peer, compiled, alone))
    if options.kamping and peers:
        include = ["-I" + folder for folder in options.kamping.split(":")] + next(iter(peers.values()))
        text = "#include <kamping/communicator.hpp>\n"
        headers.append(Job("kamping/communicator.hpp", text, include, syntax, empty))
        programs.append(Job("KaMPIng", read(HERE + "kamping.cc"), include, compiled, alone))
    else:
        print("# not measured: KaMPIng (--kamping DIR[:DIR...]: its include folder, and those it needs)")
    for name in ("vector", "string"):
        headers.append(Job("<%s>" % name, "#include <%s>\n" % name, [], syntax, empty))
    return headers, programs


def stripped_size(program, folder):
    copy = os.path.join(folder, "stripped")
    subprocess.run(["strip", "-o", copy, program], check=True)
    return os.path.getsize(copy)


def sizes(options, folder):
    found = []
    for pair in options.program:
        name, _, path = pair.partition("=")
        found.append((name, path))
    for name, wrapper in MPI.items():
        path = os.path.join(folder, name.replace(" ", ""))
        if shutil.which(wrapper):
            subprocess.run([wrapper, "-O2", "-o", path, os.path.join(ROOT, HERE, "mpi.cc")], check=True)
            found.append((name, path))
    for name, path in found:
        needs = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        libraries = [line.split("=>")[1].split()[0] for line in needs.splitlines() if "=> /" in line]
        size = sum(os.path.getsize(os.path.realpath(library)) for library in libraries)
        yield name, stripped_size(path, folder), len(libraries), size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compilers", default="g++,clang++")
    parser.add_argument("--headers", help="these alone, with commas between")
    parser.add_argument("--kamping", metavar="DIR")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    compilers = [name for name in options.compilers.split(",") if shutil.which(name)]
    for name in options.compilers.split(","):
        if name not in compilers:
            print("# not measured: " + name)
    headers, programs = jobs(options)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for job in headers + programs:
                for compiler in compilers:
                    job.run(compiler, folder)
        for title, group in (("header, ms to include", headers), ("smallest program, ms to compile", programs)):
            print("\n| %s | %s |" % (title, " | ".join(compilers)))
            print("|---" * (len(compilers) + 1) + "|")
            for job in group:
                print("| %s | %s |" % (job.name, " | ".join("%.0f" % job.milliseconds(c) for c in compilers)))
        print("\n| smallest program | stripped, KiB | shared libraries | of together, KiB |\n|---|---|---|---|")
        for name, size, libraries, together in sizes(options, folder):
            print("| %s | %.0f | %d | %.0f |" % (name, size / 1024, libraries, together / 1024))


if __name__ == "__main__":
    main()
