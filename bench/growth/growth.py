#!/usr/bin/env python3
"""How the cost of collectives grows with ranks and size: measured with comm_perf, and as a model.

    bench/growth/growth.py COMM_PERF [--ops all_reduce,broadcast] [--ranks 1,2,4,8,16,32,64]
                           [--sizes 8,1024,65536] [--rounds 3] [--symmetric] [--split 48,16384]

Each round measures every operation with every number of ranks once, in turn; a time is the least of the
rounds' medians, since what disturbs ranks that take turns only adds, and adds more than noise. The model (fit.py) is one for each operation and class of sizes, since Host chooses how to move data
by size: --split says where classes end. A world of one moves nothing and is in no model. Where ranks share
cores, a time is that of taking turns; those are fitted by themselves.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import fit


def numbers(text):
    return [int(number) for number in text.split(",")]


def measure(options, operation, ranks):
    """{bytes: us}; of the sizes that `ranks` ranks can share."""
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        for size in options.sizes:
            path = os.path.join(folder, "out.json")
            command = [options.comm_perf, operation, "-b", str(size), "-e", str(size), "-n", str(options.samples)]
            command += ["-w", "2", "-c", "0", "--ranks", str(ranks), "--json", path]
            if options.symmetric:
                command.append("--symmetric")
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            if done.returncode != 0:
                sys.exit("FAILED: %s\n%s" % (" ".join(command), done.stdout + done.stderr))
            with open(path, encoding="utf-8") as file:
                for row in json.load(file)["rows"]:
                    figures = row["in_place"] or row["out_of_place"]
                    times[row["bytes"] if operation != "barrier" else 0] = figures["p50_us"]
            if operation == "barrier":
                break
        return times


def class_of(size, splits):
    return sum(size > split for split in splits)


def class_name(index, splits):
    if index == 0:
        return "up to %d B" % splits[0] if splits else "all sizes"
    if index == len(splits):
        return "from %d B" % (splits[-1] + 1)
    return "%d to %d B" % (splits[index - 1] + 1, splits[index])


def report(operation, points, splits, cores):
    for shared in (False, True):
        for index in range(len(splits) + 1):
            part = [p for p in points if class_of(p[1], splits) == index and (p[0] > cores) == shared]
            model = fit.fit(part)
            what = "%s, %s, %s" % (operation, class_name(index, splits), "ranks share cores" if shared else "a core each")
            if model:
                print("%-58s %s  (%d points, error %.0f %%)" % (what, model, len(part), model.error * 100))
            elif part:
                print("%-58s %d points are too few for a model" % (what, len(part)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comm_perf")
    parser.add_argument("--ops", default="all_reduce,all_gather,broadcast,barrier")
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--sizes", type=numbers, default=[8, 48, 1024, 4096, 16384, 65536, 262144, 1048576])
    parser.add_argument("--split", type=numbers, default=[48, 16384])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--symmetric", action="store_true")
    options = parser.parse_args()
    options.comm_perf = os.path.abspath(options.comm_perf)
    cores = len(os.sched_getaffinity(0))
    times = {}
    for _ in range(options.rounds):
        for operation in options.ops.split(","):
            for ranks in options.ranks:
                for size, t in measure(options, operation, ranks).items():
                    times.setdefault((operation, ranks, size), []).append(t)
    print("# p50 in us, the least of %d rounds, %d cores%s; n ranks" %
          (options.rounds, cores, ", symmetric buffers" if options.symmetric else ""))
    for operation in options.ops.split(","):
        points = [(ranks, size, min(t)) for (op, ranks, size), t in times.items() if op == operation]
        sizes = sorted({size for _, size, _ in points})
        print("\n| %s, ranks | %s |" % (operation, " | ".join("%d B" % size for size in sizes)))
        print("|---" * (len(sizes) + 1) + "|")
        for ranks in options.ranks:
            cells = {size: t for n, size, t in points if n == ranks}
            print("| %d | %s |" % (ranks, " | ".join("%.2f" % cells[s] if s in cells else "-" for s in sizes)))
        print()
        report(operation, [p for p in points if p[0] > 1 and p[2] > 0], options.split, cores)


if __name__ == "__main__":
    main()
