#!/usr/bin/env python3
"""Compares comm's Host backend with Open MPI, MPICH and Gloo, side by side in one run.

    bench/peers/compare.py --comm-loop PATH --commrun PATH [--op all_reduce] [--type f32]
                           [--ranks 2] [--rounds 5] [-b 8] [-e 67108864 | --sizes 1000,3001]
                           [--misalign BYTES] [--fresh] [--peers openmpi,gloo] [--oneccl FOLDER] [--svg FILE] [--json FILE]

The same timing loop (loop.h) is built for each library from what is installed. Each round runs every
library once, in turn, so that a slow spell of the machine hits all; the figure is the median over
rounds of each run's median, with a ~ where rounds differ too much for that to mean anything. Where there is a core for each rank, each is bound to one, with every
library, as MPI's launchers do. A peer that is not installed is named and left out. The last column is
the fastest peer's time over comm's: above 1 comm is faster. Where comm loses, the row says so.

Without --fresh nobody writes the buffers between calls, as in most benchmarks of the kind, so whoever reads
a peer's memory in place may still have it in its cache. With it each rank writes before each call.

oneCCL comes from PyPI, for CPUs and with the MPI it stands on:
    pip install --no-deps --prefix FOLDER oneccl-cpu==2021.15.2 oneccl-devel==2021.15.2 impi-rt==2021.15.0
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import report

HERE = os.path.dirname(os.path.realpath(__file__))
FLAGS = ["-std=c++20", "-O3", "-march=native", "-I" + HERE]


def build(command, output):
    done = subprocess.run(command + ["-o", output], capture_output=True, text=True)
    if done.returncode != 0:
        print("# left out, does not build: %s\n%s" % (" ".join(command), done.stderr[-400:]),
              file=sys.stderr)
    return done.returncode == 0


def bound(program):
    """`program`, run by rank $RANK on a core of its own."""
    cores = " ".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    script = 'set -- "$@"; r=$RANK; for core in %s; do [ $r = 0 ] && break; r=$((r-1)); done; exec taskset -c $core "$@"'
    return ["sh", "-c", script % cores, "bound", program]


class Library:
    def __init__(self, name, start):
        self.name = name
        self.start = start  # (extra arguments, folder) -> rank 0's standard output
        self.runs = {}      # bytes -> medians, a round each

    def round(self, arguments, folder):
        # Libraries may have something to say themselves.
        for size, p50 in re.findall(r"^(\d+) ([\d.]+) [\d.]+$", self.start(arguments, folder), re.MULTILINE):
            self.runs.setdefault(int(size), []).append(float(p50))

    def median(self, size):
        return statistics.median(self.runs[size]) if size in self.runs else None

    def spread(self, size):
        """Of the rounds: the range of the middle half, over the median."""
        rounds = self.runs.get(size, [])
        if len(rounds) < 3:
            return 0
        low, middle, high = statistics.quantiles(rounds, n=4, method="inclusive")
        return (high - low) / middle


def output_of(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        sys.exit("compare.py: %s\n%s" % (" ".join(command), done.stdout + done.stderr))
    return done.stdout


def strip_prefix(text):
    """commrun puts "[rank] " before each line; only rank 0 prints."""
    return "\n".join(line.split("] ", 1)[-1] for line in text.splitlines())


def libraries(options, folder):
    found = []
    ranks = str(options.ranks)
    binds = options.ranks <= len(os.sched_getaffinity(0))
    bind = bound if binds else lambda program: [program]

    def comm(env):
        return lambda arguments, _: strip_prefix(output_of(
            [options.commrun, "-n", ranks] + bind(options.comm_loop) + arguments, env))

    found.append(Library("comm", comm({})))
    found.append(Library("comm symmetric", comm({"COMM_LOOP_SYMMETRIC": "1"})))

    mpi = os.path.join(HERE, "mpi_loop.cc")
    wanted = options.peers.split(",")
    if "openmpi" in wanted and shutil.which("mpicxx.openmpi"):
        program = os.path.join(folder, "openmpi")
        if build(["mpicxx.openmpi"] + FLAGS + [mpi], program):
            command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
            command += ["--bind-to", "core"] if binds else ["--mca", "mpi_yield_when_idle", "1"]
            found.append(Library("Open MPI", lambda a, _: output_of(command + ["-n", ranks, program] + a)))
    if "mpich" in wanted and shutil.which("mpicxx.mpich"):
        mpich = os.path.join(folder, "mpich")
        if build(["mpicxx.mpich"] + FLAGS + [mpi], mpich):
            found.append(Library("MPICH", lambda a, _: output_of(
                ["mpirun.mpich"] + (["-bind-to", "core"] if binds else []) + ["-n", ranks, mpich] + a)))
    if "gloo" in wanted and os.path.exists("/usr/include/gloo/context.h"):
        gloo = os.path.join(folder, "gloo")
        if build(["g++"] + FLAGS + [os.path.join(HERE, "gloo_loop.cc"), "-lgloo", "-lpthread"], gloo):
            found.append(Library("Gloo TCP", lambda a, f: run_gloo(bind(gloo), a, f, options.ranks)))
    if "oneccl" in wanted and options.oneccl and options.op != "send_recv":
        oneccl = os.path.join(folder, "oneccl")
        root = os.path.abspath(options.oneccl)
        flags = ["-isystem", root + "/include", os.path.join(HERE, "oneccl_loop.cc"), "-L%s/lib" % root, "-lccl"]
        if build(["g++"] + FLAGS + flags, oneccl):
            found.append(Library("oneCCL", lambda a, f: run_oneccl(root, oneccl, a, f, ranks)))
    for name in ("Open MPI", "MPICH", "Gloo TCP", "oneCCL"):
        if name not in [library.name for library in found]:
            print("# not measured: " + name)
    return found


def run_oneccl(root, program, arguments, folder, ranks):
    environment = {"ONECCL_STORE": tempfile.mkdtemp(dir=folder), "LD_LIBRARY_PATH": root + "/lib",
                   "CCL_ROOT": root, "I_MPI_ROOT": root + "/opt/mpi"}
    return output_of([root + "/bin/mpiexec.hydra", "-n", ranks, program] + arguments, environment)


def run_gloo(program, arguments, folder, ranks):
    store = tempfile.mkdtemp(dir=folder)
    processes = [
        subprocess.Popen(program + arguments, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(ranks), "GLOO_STORE": store})
        for r in range(ranks)]
    outputs = [p.communicate(timeout=900)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit("compare.py: gloo failed")
    return outputs[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comm-loop", required=True)
    parser.add_argument("--commrun", required=True)
    parser.add_argument("--op", default="all_reduce")
    parser.add_argument("--type", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-b", type=int, default=8)
    parser.add_argument("-e", type=int, default=64 << 20)
    parser.add_argument("--sizes", help="these sizes in bytes, with commas between, instead of powers of two")
    parser.add_argument("--peers", default="openmpi,mpich,gloo,oneccl", help="these alone, with commas between")
    parser.add_argument("--misalign", type=int, default=0, metavar="BYTES",
                        help="so far from a page begin the buffers; whole elements")
    parser.add_argument("--fresh", action="store_true", help="each rank writes its buffers before each call")
    parser.add_argument("--oneccl", metavar="FOLDER", help="where oneCCL was installed")
    parser.add_argument("--svg")
    parser.add_argument("--json")
    options = parser.parse_args()
    element = 4 if options.type == "f32" else 2
    if options.misalign % element != 0 or not 0 <= options.misalign < 4096:
        parser.error("--misalign %d: elements have %d bytes" % (options.misalign, element))
    title = "%s, %s, %d ranks on %d cores" % (options.op, options.type, options.ranks, os.cpu_count())
    if options.misalign:
        title += ", buffers %d bytes past a page" % options.misalign
    if options.fresh:
        title += ", freshly written"
    print("# %s; p50 in us, median of %d interleaved rounds" % (title, options.rounds))
    report.warn_if_busy()
    arguments = ["-op", options.op, "-type", options.type, "-misalign", str(options.misalign)]
    arguments += ["-fresh", "1"] if options.fresh else []
    arguments += ["-sizes", options.sizes] if options.sizes else ["-b", str(options.b), "-e", str(options.e)]
    with tempfile.TemporaryDirectory() as folder:
        found = libraries(options, folder)
        for _ in range(options.rounds):
            for library in found:
                library.round(arguments, folder)
    sizes = sorted(found[0].runs)
    report.table(found, sizes, options.rounds)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(report.svg(found, sizes, title))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({l.name: l.runs for l in found}, file, indent=1)


if __name__ == "__main__":
    main()
