#!/usr/bin/env python3
"""tensor_parallel over Nccl, on GPUs that are simulated: data goes through device memory, and a use
of CUDA or NCCL that would hang or corrupt on real ones is reported.

    simulated_gpus_test.py TENSOR_PARALLEL
"""

import os
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SMALL = ["--layers=2", "--hidden=64", "--heads=4", "--ffn=96", "--sequence=16", "--positions=100"]


def run(*arguments, **variables):
    return subprocess.run(
        [PROGRAM, *arguments],
        env=dict(os.environ, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
        check=False,
    )


class SimulatedGpus(unittest.TestCase):
    def test_ranks_agree_with_one_and_break_no_rule(self):
        for ranks in (1, 2, 3):
            for dtype in ("f32", "bf16"):
                with self.subTest(ranks=ranks, dtype=dtype):
                    result = run(
                        "--ranks=%d" % ranks, "--dtype=" + dtype, *SMALL, COMM_SIM_STRICT="fail"
                    )
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    self.assertIn("Nccl, all-reduces in " + dtype, result.stdout)
                    self.assertRegex(result.stdout, "verdict +within the bound")

    def test_too_few_gpus_are_named(self):
        result = run("--ranks=3", *SMALL, COMM_SIM_DEVICES="2")
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn("needs a GPU of its own and there are 2", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
