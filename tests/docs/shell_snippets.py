"""Checks the commands of the documents. What can be run here is run; for Bazel's own commands (a test
cannot run Bazel) the targets and configurations they name must exist; the rest must be listed below
with the reason why it is not run."""

import os
import re
import shlex
import subprocess

# Commands that are not run, and why. Each must still be sound shell.
NOT_RUN = (
    (r"git clone ", "needs the network"),
    (r"cd \S+$", "changes only the reader's shell"),
    (r"sudo apt-get ", "needs root"),
    (r"(torchrun|mpirun|mpiexec|srun) ", "a launcher that is not installed here"),
    (r"kubectl ", "needs a cluster"),
    (r"export \w+=", "changes only the reader's shell"),
    (r"(\w+=\S+ )+\./engine", "the reader's own engine"),
    (r"\S*commrun (-\S+ \S+ )*\./engine", "the reader's own engine"),
    (r"\./engine", "the reader's own engine"),
    (r"bench/peers/compare\.py ", "measures for minutes; //tests/bench runs it for a moment"),
    (r"\.ci/run", "runs the tests of which this is one"),
)

CONFIG = re.compile(r"--config[= ](\S+)")
LABEL = re.compile(r"(?<![\w@/:.-])//[\w/.-]*(?::[\w.-]+)?")


def commands_of(code):
    """The commands of a block: without prompts, comments and what they print."""
    joined = code.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines()]
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    commands = [re.sub(r"\s+#.*$", "", line).strip() for line in lines]
    return [command for command in commands if command and not command.startswith("#")]


def label_problem(label, known):
    if label.endswith("..."):
        return ""
    if ":" not in label:
        label = "%s:%s" % (label, label.rsplit("/", 1)[-1])
    return "" if label in known else "names %s, which tests/docs/BUILD.bazel does not list" % label


def check_bazel(command, known_labels, bazelrc):
    for config in CONFIG.findall(command):
        if not re.search(r"^\w+:%s " % re.escape(config), bazelrc, flags=re.MULTILINE):
            return "uses --config=%s, which .bazelrc does not have" % config
    for label in LABEL.findall(command.replace("--//", " //")):
        problem = label_problem(label, known_labels)
        if problem:
            return problem
    return ""


def run(command):
    """Runs it with bazel-bin being where this test finds what Bazel has built."""
    words = [re.sub(r"^(\./)?bazel-bin/", "./", word) for word in shlex.split(command)]
    program = words[0]
    if not os.path.exists(program):
        return "%s is not built for this test; list it in tests/docs/BUILD.bazel" % program
    result = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    if result.returncode != 0:
        return "exits with %d:\n%s" % (result.returncode, result.stdout)
    return ""


def check_command(command, known_labels, bazelrc):
    syntax = subprocess.run(
        ["bash", "-n"], input=command, text=True, stderr=subprocess.PIPE, check=False
    )
    if syntax.returncode != 0:
        return "is not sound shell: " + syntax.stderr
    if re.match(r"(\./bazelw|bazel|bazelisk) ", command):
        return check_bazel(command, known_labels, bazelrc)
    if any(re.match(pattern, command) for pattern, _ in NOT_RUN):
        return ""
    if re.match(r"(\./)?bazel-bin/", command):
        return run(command)
    return "can neither be run here nor is it in NOT_RUN of tests/docs/shell_snippets.py"


def check(snippet, known_labels, bazelrc):
    """What is wrong with it; empty if nothing."""
    problems = []
    for command in commands_of(snippet.code):
        problem = check_command(command, known_labels, bazelrc)
        if problem:
            problems.append("`%s` %s" % (command, problem))
    return "\n".join(problems)
