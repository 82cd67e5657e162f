#!/usr/bin/env python3
"""The examples over Nccl, unchanged, on GPUs that are simulated: ranks are processes, data goes through
device memory, and a use of CUDA or NCCL that would hang or corrupt on real ones fails the program.

    simulated_gpus_test.py COMMRUN HELLO HEAD_AND_WORKERS CUSTOM_DECORATOR TENSOR_PARALLEL
"""

import os
import subprocess
import sys
import unittest

import killed_head

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:6]]
COMMRUN, HELLO, HEAD_AND_WORKERS, CUSTOM_DECORATOR, TENSOR_PARALLEL = PROGRAMS
SMALL = ["--layers=2", "--hidden=64", "--heads=4", "--ffn=96", "--sequence=16", "--positions=100"]
WATCHDOG = 100  # Seconds; all of this takes a few.


def environment(**variables):
    return dict(os.environ, COMM_SIM_STRICT="fail", **variables)


def run(*command, **variables):
    return subprocess.run(
        command,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=WATCHDOG,
        check=False,
    )


class SimulatedGpus(unittest.TestCase):
    def succeeds(self, *command, **variables):
        result = run(*command, **variables)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def test_hello_sums_on_every_rank(self):
        for ranks in (1, 2, 4):
            result = self.succeeds(COMMRUN, "-n", str(ranks), HELLO)
            for rank in range(ranks):
                line = "rank %d of %d: the sum is %d\n" % (rank, ranks, ranks * (ranks + 1) / 2)
                self.assertIn(line, result.stdout)

    def test_workers_follow_the_head_and_stop_when_told(self):
        result = self.succeeds(COMMRUN, "-n", "3", HEAD_AND_WORKERS)
        for rank in range(3):
            self.assertEqual(result.stdout.count("rank %d: step done, sum 1.5\n" % rank), 2)
        self.assertEqual(result.stdout.count("told to stop"), 2)

    def test_workers_notice_a_head_that_was_killed(self):
        killed_head.check_workers_notice(
            self, HEAD_AND_WORKERS, WATCHDOG, COMM_SIM_STRICT="fail"
        )

    def test_a_decorator_counts_what_each_rank_called(self):
        result = self.succeeds(COMMRUN, "-n", "2", CUSTOM_DECORATOR)
        for rank in range(2):
            self.assertRegex(result.stdout, r"rank %d: all_reduce +100 calls" % rank)
            self.assertRegex(result.stdout, r"rank %d: barrier_wait +10 calls" % rank)

    def test_the_ranks_of_tensor_parallel_agree_with_one(self):
        for ranks in (1, 2, 3):
            for dtype in ("f32", "bf16"):
                with self.subTest(ranks=ranks, dtype=dtype):
                    result = self.succeeds(
                        TENSOR_PARALLEL, "--ranks=%d" % ranks, "--dtype=" + dtype, *SMALL
                    )
                    self.assertIn("Nccl, all-reduces in " + dtype, result.stdout)
                    self.assertRegex(result.stdout, "verdict +within the bound")

    def test_tensor_parallel_joins_the_ranks_of_a_launcher(self):
        result = self.succeeds(COMMRUN, "-n", "2", TENSOR_PARALLEL, *SMALL)
        self.assertRegex(result.stdout, "verdict +within the bound")

    def test_too_few_gpus_are_named(self):
        result = run(TENSOR_PARALLEL, "--ranks=3", *SMALL, COMM_SIM_DEVICES="2")
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("needs a GPU of its own and there are 2", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
