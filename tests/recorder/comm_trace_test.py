#!/usr/bin/env python3
"""comm_trace as a program: its exit status, its output, and a timeline that is well-formed HTML, whole
without anything from outside, and usable without a mouse.

    comm_trace_test.py COMM_TRACE
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

COMM_TRACE = sys.argv.pop(1)
ALONE = {"meta", "input", "br", "link", "img"}


def entry(seq, count, state="complete", op="all_reduce"):
    return {
        "seq": seq, "epoch": 0, "collective": seq, "op": op, "type": "bf16", "count": count,
        "reduce": "sum", "stream": 0, "submitted_ns": seq * 1000, "state": state,
        **({"complete_ns": seq * 1000 + 500} if state == "complete" else {}),
    }  # fmt: skip


def dump(rank, size, entries, failure=None):
    return {
        "format": "comm-flight-recorder",
        "version": 1,
        "communicator": {
            "name": "world</script><b>", "rank": rank, "world_size": size, "epoch": 0,
            "collectives": len(entries),
        },
        "process": {"host": "h", "pid": 1, "created_unix_ns": 10**18},
        "clock": {"origin_unix_ns": 10**18, "dumped_ns": 10**10, "source": "tsc"},
        "ring": {"capacity": 1024, "submissions": len(entries), "refused": 0},
        "failure": failure,
        "entries": entries,
    }  # fmt: skip


class Page(html.parser.HTMLParser):
    """Elements in order, and what is wrong with how they nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.problems, self.text = [], [], [], {}
        self.feed(text)
        self.problems += ["%s is not closed" % tag for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append("</%s> closes something else" % tag)

    def handle_data(self, data):
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def by_id(self, wanted):
        return next((a for _, a in self.elements if a.get("id") == wanted), None)


class CommTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_it(self, dumps, *options):
        names = []
        for i, content in enumerate(dumps):
            names.append(os.path.join(self.folder.name, "%d.json" % i))
            with open(names[-1], "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        return subprocess.run(
            [COMM_TRACE, *options, *names],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip

    def differing(self):
        failure = {"seq": 2, "code": "mismatch", "native_code": 0, "message": "<&> \"x\""}
        return [
            dump(r, 4, [entry(1, 8), entry(2, 9 if r == 2 else 8, "failed")], failure)
            for r in range(3)
        ]

    def test_nothing_wrong(self):
        done = self.run_it([dump(r, 2, [entry(1, 8)]) for r in range(2)])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("nothing wrong found"), done.stdout)

    def test_problem(self):
        done = self.run_it(self.differing())
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(
            lines[0],
            "rank 2 called all_reduce (bf16 x 9, sum) as collective 2 of epoch 0, where ranks 0, 1 "
            "called all_reduce (bf16 x 8, sum): the counts differ",
        )
        self.assertIn("first failure: rank 0", lines[1])
        self.assertIn("also: there is no dump of rank 3", done.stdout)

    def test_bad_input(self):
        for dumps, options, part in (
            ([], [], "no dumps"),
            (["{"], [], "0.json: byte 1: "),
            ([dump(0, 1, [])], ["--frob"], "unknown option"),
            ([dump(0, 1, [])], ["--patience", "x"], "no number"),
            ([dump(0, 1, [])], ["--html", "/nonexistent/x.html"], "cannot be written"),
        ):
            done = self.run_it(dumps, *options)
            self.assertEqual(done.returncode, 2, (dumps, options))
            self.assertIn(part, done.stderr)

    def test_help(self):
        done = self.run_it([], "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_html(self):
        out = os.path.join(self.folder.name, "out.html")
        done = self.run_it(self.differing(), "--html", out)
        self.assertEqual(done.returncode, 1, done.stderr)
        with open(out, encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.assertEqual(page.problems, [])
        self.assertTrue(text.startswith("<!DOCTYPE html>"))
        self.assertIn("rank 2 called all_reduce", page.text["h1"])
        self.assertIn("world</script><b>", page.text["title"])
        # Nothing from outside, and nothing can be fetched.
        self.assertEqual(re.findall(r"(?:https?:)?//[a-z]", text.replace("</", "")), [])
        for _, attributes in page.elements:
            self.assertFalse({"src", "href", "srcset", "action"} & set(attributes))
        policy = [a["content"] for a in page.all("meta") if "http-equiv" in a]
        self.assertEqual(len(policy), 1)
        self.assertIn("default-src 'none'", policy[0])
        # For the keyboard, for those who listen, for light and dark.
        chart = page.by_id("chart")
        self.assertEqual((chart["tabindex"], chart["role"]), ("0", "application"))
        self.assertTrue(chart["aria-label"])
        self.assertEqual(page.by_id("detail")["aria-live"], "polite")
        self.assertEqual(page.all("html")[0]["lang"], "en")
        self.assertEqual(len([a for a in page.all("button") if a["type"] == "button"]), 4)
        self.assertIn("prefers-color-scheme: dark", page.text["style"])
        # Every element that the script takes by its id is there.
        for wanted in re.findall(r'byId\("([a-z]+)"\)', text):
            self.assertIsNotNone(page.by_id(wanted), wanted)
        # The data that it draws.
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
        self.assertEqual([lane["rank"] for lane in data["lanes"]], [0, 1, 2, 3])
        self.assertNotIn("entries", data["lanes"][3])
        self.assertEqual(data["faulty"], [2])
        self.assertEqual([e[7] for e in data["lanes"][2]["entries"]], [0, 1])
        self.assertEqual(data["texts"][data["lanes"][2]["entries"][1][5]], "all_reduce (bf16 x 9, sum)")

    def test_many_ranks(self):
        out = os.path.join(self.folder.name, "out.html")
        size = 200
        text = json.dumps(dump(0, size, [entry(i, 8) for i in range(1, 1200)]))
        done = self.run_it(
            [text.replace('"rank": 0', '"rank": %d' % r) for r in range(size)], "--html", out
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(os.path.getsize(out), 12 << 20)
        with open(out, encoding="utf-8") as file:
            self.assertIn("submissions are left out", file.read())


if __name__ == "__main__":
    unittest.main()
