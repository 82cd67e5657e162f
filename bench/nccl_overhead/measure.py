#!/usr/bin/env python3
"""Instructions of one all_reduce through Communicator<Nccl> beyond the bare ncclAllReduce call, and
those that a flight recorder around Nccl adds.

    measure.py PROGRAM [--most 40] [--most-recorded 80]

Runs the program under callgrind, with NCCL and CUDA replaced by functions that do nothing, for two
numbers of calls each; the difference is what a call costs. Fails above `--most` and
`--most-recorded`. The recorder reads its clock by rdtsc, which is counted; there is no call that
callgrind would not see into.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "instructions"))
import callgrind  # noqa: E402, beside this folder

CALLS = (1000, 11000)


def instructions(program, way, calls):
    return callgrind.count([program, way, str(calls)], "*loop_%s*" % way)[1][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--most", type=float, default=40)
    parser.add_argument("--most-recorded", type=float, default=80)
    options = parser.parse_args()
    cost = {}
    for way in ("bare", "comm", "recorded"):
        few, many = (instructions(options.program, way, calls) for calls in CALLS)
        cost[way] = (many - few) / (CALLS[1] - CALLS[0])
        print("%-8s %6.1f instructions a call" % (way, cost[way]))
    sound = True
    for way, base, most in (
        ("comm", "bare", options.most),
        ("recorded", "comm", options.most_recorded),
    ):
        more = cost[way] - cost[base]
        print("%s adds %.1f to %s (at most %.0f)" % (way, more, base, most))
        sound = sound and 0 < more <= most
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
