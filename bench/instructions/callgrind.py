"""Counts the instructions of parts of a program with callgrind.

Seconds cannot be trusted on a machine that others use; instructions can. Valgrind shows a program its
own processor (AVX2 where the machine has it, never AVX-512), so what is chosen by the processor is the
same on every x86-64 machine since 2013, and what a sleeping or waiting thread costs is not counted.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile


def count(command, collect, dump_after=None):
    """Runs the command; returns its standard output and the instructions collected in functions that
    match `collect`: a number for each dump, the last one being what came after the last dump."""
    if shutil.which("valgrind") is None:
        sys.exit("FAILED: valgrind is not there, and nothing else counts instructions; ./bazelw test "
                 "installs it, or: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        tool = ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--callgrind-out-file=" + out]
        tool += ["--toggle-collect=" + collect]
        if dump_after:
            tool += ["--dump-after=" + dump_after]
        done = subprocess.run(tool + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=240)
        if done.returncode != 0:
            sys.exit("FAILED: %s\n%s%s" % (" ".join(tool + command), done.stdout, done.stderr))
        dumps = sorted(glob.glob(out + ".*"), key=lambda path: int(path.rsplit(".", 1)[1]))
        return done.stdout, [_total(path) for path in dumps + glob.glob(out)]


def _total(path):
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE)
    return int(found.group(1))
