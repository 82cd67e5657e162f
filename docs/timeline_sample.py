#!/usr/bin/env python3
"""Makes docs/timeline.png again: dumps of eight ranks of which one left a collective out, comm_trace's
timeline of them, and a picture of it by Debian's chromium (and optipng or pngquant, where it is there).

    bazel build //comm:comm_trace && docs/timeline_sample.py bazel-bin/comm/trace/comm_trace [PICTURE]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

RANKS = 8
STEPS = [("all_reduce", 8192), ("all_gather", 1024), ("all_reduce", 4096), ("all_reduce", 4096)]


def entry(seq, number, op, count, begin, length):
    made = {
        "seq": seq, "epoch": 0, "op": op, "type": "bf16", "count": count, "stream": 0,
        "submitted_ns": begin, "state": "complete", "complete_ns": begin + length, "result": "ok",
    }  # fmt: skip
    if number:
        made["collective"] = number
    if op == "all_reduce":
        made["reduce"] = "sum"
    return made


def dump(rank):
    entries, number, clock = [], 0, 0
    for step in range(24):
        op, count = STEPS[step % len(STEPS)]
        clock += 60_000 + (step * 7919 + rank * 104729) % 25_000
        if rank == 5 and step == 17:
            continue  # The mistake.
        number += 1
        length = 18_000 + count * 2 + (step * 31 + rank * 17) % 9_000
        entries.append(entry(len(entries) + 1, number, op, count, clock, length))
        if step % 6 == 2:
            peer = rank ^ 1
            made = entry(len(entries) + 1, 0, "send_recv", 2048, clock + length + 2_000, 9_000)
            entries.append({**made, "peer": peer, "source": peer, "recv_count": 2048})
    for last in entries:
        if last.get("collective", 0) >= 18:
            last.update(state="returned" if last["collective"] < number else "failed")
            last.pop("complete_ns")
    entries[-1].update(failed_ns=clock + 400_000, result="timeout")
    failure = {
        "seq": len(entries), "code": "timeout", "native_code": 0,
        "message": "synchronize on rank %d of 8: not complete after 400 ms" % rank,
    }  # fmt: skip
    return {
        "format": "comm-flight-recorder", "version": 1, "reason": "failure",
        "communicator": {
            "name": "world", "rank": rank, "world_size": RANKS, "epoch": 0, "collectives": number,
        },
        "process": {"host": "node0", "pid": 100 + rank, "created_unix_ns": 10**18},
        "clock": {"origin_unix_ns": 10**18, "dumped_ns": clock + 500_000, "source": "tsc"},
        "ring": {"capacity": 1024, "submissions": len(entries), "refused": 0},
        "failure": failure, "entries": entries,
    }  # fmt: skip


def main():
    comm_trace = sys.argv[1]
    picture = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "docs/timeline.png")
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for rank in range(RANKS):
            names.append(os.path.join(folder, "rank%d.json" % rank))
            with open(names[-1], "w", encoding="utf-8") as file:
                json.dump(dump(rank), file)
        page = os.path.join(folder, "timeline.html")
        subprocess.run([comm_trace, "--html", page, *names], check=False)
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--window-size=1280,530", "--screenshot=" + picture, "file://" + page],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    for command in (["pngquant", "--force", "--output", picture, picture], ["optipng", "-q", picture]):
        if shutil.which(command[0]):
            subprocess.run(command, check=True)
    print("%s: %d bytes" % (picture, os.path.getsize(picture)))


if __name__ == "__main__":
    main()
