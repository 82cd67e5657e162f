#!/usr/bin/env python3
"""count_tests.py counts what ran, and takes nothing that did not run for a pass."""

import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, ".ci")
import count_tests  # noqa: E402

GOOD = "[doctest] test cases:  3 |  3 passed | 0 failed | 0 skipped\n"
BAD = "[doctest] test cases: 3 | 2 passed | 1 failed | 0 skipped\n"
NONE = "[doctest] test cases: 0 | 0 passed | 0 failed | 7 skipped\n"
SUCCESS = {"id": {"buildFinished": {}}, "finished": {"exitCode": {"name": "SUCCESS"}}}


def ran(log, status="PASSED"):
    return {"id": {"testResult": {"label": "//t"}}, "testResult": {"status": status, "log": log}}


def completed(label, **rest):
    return {"id": {"targetCompleted": {"label": label}}, **rest}


def finished(name):
    return {"id": {"buildFinished": {}}, "finished": {"exitCode": {"name": name}}}


class CountTestsTest(unittest.TestCase):
    def assert_counts(self, passed, failed, *events):
        counted = count_tests.count(events, read=lambda result: result["log"])
        self.assertEqual(counted[:2], (passed, failed), counted[2])

    def test_the_test_cases_of_doctest_are_counted(self):
        self.assert_counts(3, 0, ran(GOOD), SUCCESS)

    def test_a_program_that_runs_several_is_summed(self):
        self.assert_counts(6, 0, ran(GOOD + "noise\n" + GOOD), SUCCESS)

    def test_another_kind_of_test_is_one(self):
        self.assert_counts(1, 0, ran("ok\n"), SUCCESS)
        self.assert_counts(0, 1, ran("bad\n", "FAILED"), finished("TESTS_FAILED"))

    def test_failed_cases_are_counted(self):
        self.assert_counts(2, 1, ran(BAD, "FAILED"), finished("TESTS_FAILED"))

    def test_a_crash_after_the_last_case_is_a_failure(self):
        self.assert_counts(3, 1, ran(GOOD, "FAILED"), finished("TESTS_FAILED"))

    def test_a_timeout_is_a_failure(self):
        self.assert_counts(0, 1, ran("", "TIMEOUT"), finished("TESTS_FAILED"))

    def test_a_program_that_ran_no_case_is_a_failure(self):
        self.assert_counts(0, 1, ran(NONE), SUCCESS)

    def test_what_did_not_build_is_a_failure(self):
        self.assert_counts(0, 1, completed("//t", completed={}), finished("BUILD_FAILURE"))

    def test_what_was_left_out_is_no_pass_and_is_said(self):
        left_out = completed("//gpu", aborted={"reason": "SKIPPED"})
        self.assert_counts(3, 0, left_out, ran(GOOD), SUCCESS)
        self.assertIn("//gpu", count_tests.count([left_out, SUCCESS])[2][0])

    def test_a_bazel_that_failed_or_vanished_is_a_failure(self):
        self.assert_counts(0, 1, finished("PARSING_FAILURE"))
        self.assert_counts(3, 1, ran(GOOD))


if __name__ == "__main__":
    unittest.main()
