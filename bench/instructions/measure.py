#!/usr/bin/env python3
"""Instructions of an all_reduce, held to bounds.txt: the benchmark that a busy machine cannot disturb.

    bazel test //tests/bench:instructions_test --test_output=all
    measure.py PROGRAM BOUNDS [--write]

SingleGpu    beyond an empty loop: nothing.
Decorators   beyond the backend they are around, which does nothing (idle_backend.h). For Checked that
             leaves out what the backend's exchange of fingerprints costs.
Host         one rank of two, FP32, in place, when the other has come first: all of the call but the
             waiting. 4 KiB depend on the width of vectors: AVX2, as valgrind has it.

A line of bounds.txt is the most instructions a call, and what is counted: one way, or one less another.
--write sets the bounds to what is counted now and 4 % more, after a change that is worth it.
"""

import argparse
import math
import sys

import callgrind

HEADROOM = 1.04


def count(program):
    output, totals = callgrind.count([program], "*measured_*", "*finish_way*")
    ways = [line.split(" ", 1) for line in output.splitlines()]
    if len(totals) < len(ways):
        sys.exit("FAILED: %d ways and %d counts:\n%s" % (len(ways), len(totals), output))
    return {way: total / int(calls) for (calls, way), total in zip(ways, totals)}


def value(cost, what):
    way, _, base = what.partition(" - ")
    for name in filter(None, (way, base)):
        if name not in cost:
            sys.exit("FAILED: nothing is called '%s' but: %s" % (name, "; ".join(cost)))
    return cost[way] - (cost[base] if base else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("bounds")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with open(options.bounds, encoding="utf-8") as file:
        lines = file.read().splitlines()
    cost = count(options.program)
    sound = True
    written = []
    print("%10s %8s  instructions a call" % ("counted", "at most"))
    for line in lines:
        if not line or line.startswith("#"):
            written.append(line)
            continue
        most, what = line.split(None, 1)
        now = value(cost, what)
        grown = now > float(most) + 0.5
        sound = sound and not grown
        note = ""
        if grown:
            note = "  GROWN: make it cheaper, or if it is worth that, raise the bound (--write)"
        elif now * HEADROOM * HEADROOM < float(most):
            note = "  the bound can come down (--write)"
        print("%10.1f %8s  %s%s" % (now, most, what, note))
        written.append("%6d  %s" % (math.ceil(round(now, 1) * HEADROOM), what))
    if options.write:
        with open(options.bounds, "w", encoding="utf-8") as file:
            file.write("\n".join(written) + "\n")
        return
    if not sound:
        sys.exit("FAILED: more instructions than bounds.txt allows")


if __name__ == "__main__":
    main()
