#!/usr/bin/env python3
"""The examples of somebody else's backend and decorator, started as a user starts them.

    custom_programs_test.py COMMRUN CUSTOM_BACKEND CUSTOM_DECORATOR
"""

import os
import re
import subprocess
import sys
import unittest

COMMRUN, CUSTOM_BACKEND, CUSTOM_DECORATOR = (os.path.abspath(path) for path in sys.argv[1:4])
WATCHDOG = 60  # Seconds; all of this takes a few.


def output_of(*command):
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WATCHDOG,
        check=False,
    )
    if result.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (command[0], result.returncode, result.stdout))
    return result.stdout


class Custom(unittest.TestCase):
    def test_four_ranks_of_a_backend_of_ones_own_agree(self):
        lines = sorted(output_of(CUSTOM_BACKEND).splitlines())
        expected = [
            "rank %d of 4: the largest is 9, on my left is rank %d" % (rank, (rank + 3) % 4)
            for rank in range(4)
        ]
        self.assertEqual(lines, expected)

    def test_a_decorator_of_ones_own_counts_what_each_rank_called(self):
        output = output_of(COMMRUN, "-n", "2", CUSTOM_DECORATOR)
        for rank in range(2):
            for operation, calls in (("all_reduce", 100), ("barrier_wait", 10)):
                line = r"rank %d: %s +%d calls, +[0-9.]+ us each" % (rank, operation, calls)
                self.assertRegex(output, re.compile(line))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
