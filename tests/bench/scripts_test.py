#!/usr/bin/env python3
"""The benchmark scripts run, and their arithmetic is right. What they measure here means nothing: few
rounds, small sizes, a busy machine.

    scripts_test.py BUILD_COST COMPARE GROWTH COMM_LOOP COMMRUN COMM_PERF SINGLE_GPU
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BUILD_COST, COMPARE, GROWTH, COMM_LOOP, COMMRUN, COMM_PERF, SINGLE_GPU = map(os.path.abspath, sys.argv[1:8])
for script in (COMPARE, GROWTH):
    sys.path.insert(0, os.path.dirname(script))

import fit  # noqa: E402, beside growth.py
import report  # noqa: E402, beside compare.py


def run(*command):
    done = subprocess.run([sys.executable, "-B", *command], capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        raise AssertionError("%s\n%s%s" % (" ".join(command), done.stdout, done.stderr))
    return done.stdout


def rows(output):
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class BuildCost(unittest.TestCase):
    def test_headers_programs_and_sizes_are_measured(self):
        output = run(BUILD_COST, "--rounds=1", "--compilers=g++", "--headers=comm/status.h",
                     "--program=SingleGpu=" + SINGLE_GPU)
        found = {row[0]: row[1:] for row in rows(output)}
        for name in ("(empty file)", "comm/status.h", "<vector>", "(int main() {})", "single_gpu", "host"):
            float(found[name][0])
        self.assertLess(float(found["SingleGpu"][0]), 100)  # KiB
        self.assertIn("# not measured: KaMPIng", output)


class Compare(unittest.TestCase):
    def test_odd_sizes_and_misaligned_buffers_of_every_operation(self):
        for operation in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "out.json")
                output = run(COMPARE, "--comm-loop=" + COMM_LOOP, "--commrun=" + COMMRUN, "--op=" + operation,
                             "--peers=", "--rounds=1", "--sizes=8,1000,3001", "--misalign=4", "--json=" + path,
                             "--svg=" + os.path.join(folder, "out.svg"))
                self.assertEqual([row[0] for row in rows(output)[1:]], ["8 B", "1000 B", "3001 B"], output)
                with open(path, encoding="utf-8") as file:
                    runs = json.load(file)
                self.assertEqual(sorted(runs), ["comm", "comm symmetric"])
                self.assertEqual([len(runs["comm"][size]) for size in ("8", "1000", "3001")], [1, 1, 1])

    def test_buffers_written_before_each_call(self):
        output = run(COMPARE, "--comm-loop=" + COMM_LOOP, "--commrun=" + COMMRUN, "--peers=", "--rounds=1",
                     "--sizes=4096", "--fresh")
        self.assertIn("freshly written", output)
        self.assertEqual([row[0] for row in rows(output)[1:]], ["4 KiB"], output)

    def test_whoever_is_slower_is_said_to_lose_and_noise_is_seen(self):
        self.assertEqual(report.ratio([3.0, 2.0], 1.0), "2.00")
        self.assertEqual(report.ratio([3.0, 2.0], 4.0), "0.50 (loses)")
        self.assertEqual(report.size_label(64 << 20), "64 MiB")
        self.assertEqual(report.size_label(3001), "3001 B")


class Growth(unittest.TestCase):
    def test_a_model_finds_the_terms_that_made_the_times(self):
        made = {"log2 n": 5.0, "n": 0.25, "n KiB": 0.125}
        points = [(n, s, sum(c * fit.TERMS[name](n, s) for name, c in made.items()))
                  for n in (2, 4, 8, 16, 64) for s in (8, 1024, 65536)]
        model = fit.fit(points)
        self.assertEqual(sorted(model.coefficients), sorted(made))
        for name, value in made.items():
            self.assertAlmostEqual(model.coefficients[name], value, places=6)
        self.assertLess(model.error, 1e-6)

    def test_noise_adds_no_term_and_no_term_is_negative(self):
        points = [(n, s, 3.0 * n * (1.1 if (n + s) % 3 else 0.9)) for n in (2, 4, 8, 16) for s in (8, 1024)]
        self.assertEqual(list(fit.fit(points).coefficients), ["n"])
        self.assertIsNone(fit.fit([(2, 8, 1.0)]))

    def test_ranks_that_share_cores_are_fitted_by_themselves(self):
        output = run(GROWTH, COMM_PERF, "--ops=all_reduce,barrier", "--ranks=1,2,3", "--sizes=8,24,4096",
                     "--rounds=1", "--samples=1")
        self.assertEqual([row[0] for row in rows(output)].count("3"), 2, output)
        self.assertIn("all_reduce, up to 48 B", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
