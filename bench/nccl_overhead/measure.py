#!/usr/bin/env python3
"""Instructions of one all_reduce through Communicator<Nccl> beyond the bare ncclAllReduce call, and
those that a flight recorder around Nccl adds.

    measure.py PROGRAM [--most 40] [--most-recorded 80]

Runs the program under callgrind, with NCCL and CUDA replaced by functions that do nothing, for two
numbers of calls each; the difference is what a call costs. Fails above `--most` and `--most-recorded`. The recorder reads its
clock by rdtsc, which is counted; there is no call that callgrind would not see into.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

CALLS = (1000, 11000)


def instructions(program, way, calls):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out]
        command += ["--toggle-collect=*loop_%s*" % way, program, way, str(calls)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        if done.returncode != 0:
            sys.exit("FAILED: %s\n%s" % (" ".join(command), done.stdout))
        with open(out, encoding="utf-8") as file:
            total = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE)
    return int(total.group(1))


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
