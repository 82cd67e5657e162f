#!/usr/bin/env python3
"""Compares comm's Host backend with Open MPI, MPICH and Gloo, side by side in one run.

    bench/peers/compare.py --comm-loop PATH --commrun PATH [--op all_reduce] [--type f32]
                           [--ranks 2] [--rounds 5] [-b 8] [-e 67108864] [--svg FILE] [--json FILE]

The same timing loop (loop.h) is built for each library from what is installed. Each round runs every
library once, in turn, so that a slow spell of the machine hits all; the figure is the median over
rounds of each run's median. A peer that is not installed is named and left out. The last column is
the fastest peer's time over comm's: above 1 comm is faster. Where comm loses, the row says so.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
FLAGS = ["-std=c++20", "-O3", "-march=native", "-I" + HERE]


def build(command, output):
    done = subprocess.run(command + ["-o", output], capture_output=True, text=True)
    if done.returncode != 0:
        print("# left out, does not build: %s\n%s" % (" ".join(command), done.stderr[-400:]),
              file=sys.stderr)
    return done.returncode == 0


class Library:
    def __init__(self, name, start):
        self.name = name
        self.start = start  # (extra arguments, folder) -> rank 0's standard output
        self.runs = {}      # bytes -> medians, a round each

    def round(self, arguments, folder):
        for line in self.start(arguments, folder).splitlines():
            size, p50, _ = line.split()
            self.runs.setdefault(int(size), []).append(float(p50))

    def median(self, size):
        return statistics.median(self.runs[size]) if size in self.runs else None


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

    def comm(env):
        return lambda arguments, _: strip_prefix(output_of(
            [options.commrun, "-n", ranks, options.comm_loop] + arguments, env))

    found.append(Library("comm", comm({})))
    found.append(Library("comm symmetric", comm({"COMM_LOOP_SYMMETRIC": "1"})))

    mpi = os.path.join(HERE, "mpi_loop.cc")
    if shutil.which("mpicxx.openmpi"):
        program = os.path.join(folder, "openmpi")
        if build(["mpicxx.openmpi"] + FLAGS + [mpi], program):
            command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
            if options.ranks > os.cpu_count():
                command += ["--mca", "mpi_yield_when_idle", "1"]
            found.append(Library("Open MPI", lambda a, _: output_of(command + ["-n", ranks, program] + a)))
    if shutil.which("mpicxx.mpich"):
        mpich = os.path.join(folder, "mpich")
        if build(["mpicxx.mpich"] + FLAGS + [mpi], mpich):
            found.append(Library("MPICH", lambda a, _: output_of(["mpirun.mpich", "-n", ranks, mpich] + a)))
    if options.op not in ("reduce_scatter", "send_recv") and os.path.exists("/usr/include/gloo/context.h"):
        gloo = os.path.join(folder, "gloo")
        if build(["g++"] + FLAGS + [os.path.join(HERE, "gloo_loop.cc"), "-lgloo", "-lpthread"], gloo):
            found.append(Library("Gloo TCP", lambda a, f: run_gloo(gloo, a, f, options.ranks)))
    for name in ("Open MPI", "MPICH", "Gloo TCP"):
        if name not in [library.name for library in found]:
            print("# not measured: " + name)
    return found


def run_gloo(program, arguments, folder, ranks):
    store = tempfile.mkdtemp(dir=folder)
    processes = [
        subprocess.Popen([program] + arguments, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(ranks), "GLOO_STORE": store})
        for r in range(ranks)]
    outputs = [p.communicate(timeout=900)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit("compare.py: gloo failed")
    return outputs[0]


def size_label(size):
    for unit in ("", "Ki", "Mi", "Gi"):
        if size < 1024 or unit == "Gi":
            return "%d %sB" % (size, unit)
        size //= 1024


def table(found, sizes):
    print("| size | " + " | ".join(l.name for l in found) + " | best peer / comm | best peer / symmetric |")
    print("|---" * (len(found) + 3) + "|")
    for size in sizes:
        cells = ["%.2f" % l.median(size) if l.median(size) else "-" for l in found]
        peers = [l.median(size) for l in found[2:] if l.median(size)]
        ratios = ["-", "-"]
        if peers:
            ratios = ["%.2f%s" % (min(peers) / l.median(size), "" if l.median(size) <= min(peers) else " (loses)")
                      for l in found[:2]]
        print("| %s | %s | %s |" % (size_label(size), " | ".join(cells), " | ".join(ratios)))


def svg(found, sizes, title):
    width, height, left, top = 760, 420, 60, 40
    import math
    values = [l.median(s) for l in found for s in sizes if l.median(s)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    def x(s): return left + (math.log2(s / sizes[0])) / max(1, math.log2(sizes[-1] / sizes[0])) * (width - left - 150)
    def y(v): return height - 40 - (math.log10(v) - low) / max(1, high - low) * (height - 40 - top)
    out = ["<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='12'>"
           % (width, height), "<rect width='100%' height='100%' fill='white'/>",
           "<text x='%d' y='22' font-size='15'>%s: time (p50, us) against size</text>" % (left, title)]
    for power in range(low, high + 1):
        out.append("<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>"
                   % (left, width - 150, y(10 ** power), y(10 ** power), left - 6, y(10 ** power) + 4, 10 ** power))
    for s in sizes[::max(1, len(sizes) // 8)]:
        out.append("<text x='%.1f' y='%d' text-anchor='middle'>%s</text>" % (x(s), height - 18, size_label(s)))
    colors = ["#d1242f", "#bc4c00", "#1f6feb", "#1a7f37", "#8250df"]
    for i, l in enumerate(found):
        points = " ".join("%.1f,%.1f" % (x(s), y(l.median(s))) for s in sizes if l.median(s))
        out.append("<polyline fill='none' stroke='%s' stroke-width='2' points='%s'/>" % (colors[i % 5], points))
        out.append("<text x='%d' y='%d' fill='%s'>%s</text>" % (width - 140, top + 20 + 18 * i, colors[i % 5], l.name))
    return "\n".join(out + ["</svg>\n"])


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
    parser.add_argument("--svg")
    parser.add_argument("--json")
    options = parser.parse_args()
    title = "%s, %s, %d ranks on %d cores" % (options.op, options.type, options.ranks, os.cpu_count())
    print("# %s; p50 in us, median of %d interleaved rounds" % (title, options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        found = libraries(options, folder)
        arguments = ["-op", options.op, "-type", options.type, "-b", str(options.b), "-e", str(options.e)]
        for _ in range(options.rounds):
            for library in found:
                library.round(arguments, folder)
    sizes = sorted(found[0].runs)
    table(found, sizes)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(svg(found, sizes, title))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({l.name: l.runs for l in found}, file, indent=1)


if __name__ == "__main__":
    main()
