#!/usr/bin/env python3
"""Instructions of one all_reduce through Communicator<Nccl> beyond the bare ncclAllReduce call.

    measure.py PROGRAM [--most 40]

Runs the program under callgrind, with NCCL and CUDA replaced by functions that do nothing, for two
numbers of calls each; the difference is what a call costs. Fails above `--most`.
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
    options = parser.parse_args()
    cost = {}
    for way in ("bare", "comm"):
        few, many = (instructions(options.program, way, calls) for calls in CALLS)
        cost[way] = (many - few) / (CALLS[1] - CALLS[0])
        print("%-5s %6.1f instructions a call" % (way, cost[way]))
    more = cost["comm"] - cost["bare"]
    print("comm adds %.1f (at most %.0f)" % (more, options.most))
    sys.exit(0 if 0 < more <= options.most else 1)


if __name__ == "__main__":
    main()
