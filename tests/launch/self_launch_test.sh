#!/bin/bash
# launch_self: ranks know who they are and share a secret of their own, and all of them end.
set -u
program=$1

fail() {
  echo "FAILED: $*"
  exit 1
}

COMM_SECRET=stale COMM_BIND=192.0.2.1 COMM_RENDEZVOUS_FILE=/nowhere "$program" environment | sort >out.txt ||
  fail "the ranks do not end well"
for rank in 0 1 2; do
  grep -qE "^rank $rank of 3, secret of 32, job self-[0-9a-f]{32}, bind ''\$" out.txt || fail "$(cat out.txt)"
done
[[ $(grep -oE 'self-[0-9a-f]+' out.txt | sort -u | wc -l) -eq 1 ]] || fail "more than one job: $(cat out.txt)"

"$program" nested || fail "a program that a rank started takes itself for a rank"

# All inherit that SIGTERM is ignored. It waits for all, so it ends only if they are ended by force.
(trap '' TERM && exec "$program" stubborn)
[[ $? -eq 7 ]] || fail "the status is not that of the rank that failed first"
echo "launch_self: all right"
