#!/usr/bin/env python3
"""The examples, started as a user starts them: their output and their exit status.

    programs_test.py COMMRUN HELLO HEAD_AND_WORKERS TENSOR_PARALLEL
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import killed_head

COMMRUN, HELLO, HEAD_AND_WORKERS, TENSOR_PARALLEL = (os.path.abspath(p) for p in sys.argv[1:5])
WATCHDOG = 60  # Seconds; all of this takes a few.

SMALL = ["--layers=2", "--hidden=64", "--heads=4", "--ffn=96", "--sequence=16", "--positions=100"]


def run(*command, **kwargs):
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=WATCHDOG,
        check=False,
        **kwargs,
    )


def line_of(result, name):
    """The rest of the line of the report that begins with `name`, also behind commrun's prefix."""
    return re.search(r"^(?:\[0\] )?%s +(.*)$" % name, result.stdout, flags=re.MULTILINE).group(1)


class Programs(unittest.TestCase):
    def succeeds(self, *command):
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def is_refused(self, words, *command):
        result = run(*command)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn(words, result.stderr)


class Hello(Programs):
    def test_every_rank_gets_the_sum(self):
        result = self.succeeds(COMMRUN, "-n", "3", HELLO)
        for rank in range(3):
            self.assertIn("rank %d of 3: the sum is 6\n" % rank, result.stdout)

    def test_without_a_launcher_the_world_is_one_rank(self):
        self.assertEqual(self.succeeds(HELLO).stdout, "rank 0 of 1: the sum is 1\n")


class HeadAndWorkers(Programs):
    def test_workers_follow_the_head_and_stop_when_told(self):
        result = self.succeeds(COMMRUN, "-n", "3", HEAD_AND_WORKERS)
        for rank in range(3):
            self.assertEqual(result.stdout.count("rank %d: step done, sum 1.5\n" % rank), 2)
        self.assertEqual(result.stdout.count("told to stop"), 2)

    def test_workers_notice_a_head_that_was_killed(self):
        killed_head.check_workers_notice(self, HEAD_AND_WORKERS, WATCHDOG)

    def test_an_unknown_argument_is_refused(self):
        self.is_refused("usage: head_and_workers", HEAD_AND_WORKERS, "--crash")


class TensorParallel(Programs):
    def check_report(self, result, ranks):
        self.assertEqual(line_of(result, "verdict"), "within the bound")
        self.assertEqual(line_of(result, "ranks agree"), "bit for bit")
        for rank in range(ranks):
            self.assertRegex(result.stdout, r"rank %d of %d +\d" % (rank, ranks))

    def test_it_starts_ranks_itself(self):
        result = self.succeeds(TENSOR_PARALLEL, *SMALL)
        self.check_report(result, 2)
        self.assertRegex(result.stdout, r"rank 0 of 2 .* 4 +0\.1 MB")  # 2 all-reduces a layer
        self.assertRegex(result.stdout, r"1 rank .* 0 +0\.0 MB +0\.0 %")
        self.assertIn("2 ranks: 100 of 100 positions", result.stderr)

    def test_heads_need_not_divide_evenly(self):
        self.check_report(self.succeeds(TENSOR_PARALLEL, "--ranks=3", *SMALL), 3)

    def test_one_rank_with_the_parallel_backend_is_the_reference(self):
        result = self.succeeds(TENSOR_PARALLEL, "--ranks=1", *SMALL)
        self.assertRegex(line_of(result, "largest difference"), r"^0\.00e\+00 ")

    def test_bf16_halves_the_bytes_and_stays_within_its_bound(self):
        result = self.succeeds(TENSOR_PARALLEL, "--dtype=bf16", "--positions=1000", *SMALL[:-1])
        self.check_report(result, 2)
        self.assertRegex(result.stdout, r"rank 1 of 2 .* 8 +0\.5 MB")

    def test_it_joins_the_ranks_of_a_launcher(self):
        self.check_report(self.succeeds(COMMRUN, "-n", "3", TENSOR_PARALLEL, *SMALL), 3)

    def test_the_same_run_gives_the_same_numbers(self):
        runs = [self.succeeds(TENSOR_PARALLEL, *SMALL) for _ in range(2)]
        for name in ("largest difference", "bound"):
            self.assertEqual(line_of(runs[0], name), line_of(runs[1], name))

    def test_a_text_of_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text")
            with open(text, "w", encoding="utf-8") as file:
                file.write("To be, or not to be")
            result = self.succeeds(TENSOR_PARALLEL, *SMALL, text)
        self.assertIn("%s, 19 positions" % text, result.stdout)

    def test_help_and_wrong_arguments(self):
        self.assertIn("usage: tensor_parallel", self.succeeds(TENSOR_PARALLEL, "--help").stdout)
        self.is_refused("16 ranks cannot share 8 heads", TENSOR_PARALLEL, "--ranks=16")
        self.is_refused("cannot open the text", TENSOR_PARALLEL, "/no/such/file")
        joined = run(COMMRUN, "-n", "2", TENSOR_PARALLEL, "--ranks=3", *SMALL)
        self.assertEqual(joined.returncode, 2)
        self.assertIn("--ranks 3, but", joined.stdout + joined.stderr)

    def test_ranks_do_not_outlive_the_program(self):
        marker = "--seed=%d" % os.getpid()
        program = subprocess.Popen(
            [TENSOR_PARALLEL, marker, "--layers=64"], stderr=subprocess.DEVNULL
        )
        try:
            self.wait_until(lambda: len(processes_with(marker)) == 3)
        finally:
            program.kill()
            program.wait()
        self.wait_until(lambda: not processes_with(marker))

    def wait_until(self, condition):
        deadline = time.monotonic() + WATCHDOG
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


def processes_with(argument):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if argument.encode() in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            pass  # It has ended meanwhile.
    return found


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
