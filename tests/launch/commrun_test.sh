#!/usr/bin/env bash
# commrun, from the outside: what it exits with, what it prints, and what it leaves behind.
#   commrun_test.sh COMMRUN MEMBER
# shellcheck disable=SC2016  # What is in single quotes is for the ranks' shell.
set -uo pipefail
commrun=$1 member=$2
checks=0 failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The arguments are what is checked, a status, and the status it should be.
check() {
  checks=$((checks + 1))
  if [[ "$2" != "$3" ]]; then
    failures=$((failures + 1))
    echo "FAILED: $1: got '$2', expected '$3'"
  fi
}

# Whether no sleep of this length is left.
none_left() {
  local i
  for ((i = 0; i < 100; i++)); do
    pgrep -f "^sleep $1\$" >/dev/null || { echo yes && return; }
    sleep 0.05
  done
  echo no
}

# Empties the file for the output of a job that is started in the background next.
begin() { : >"$scratch/out"; }

# Waits until the file has the number of lines; the watchdog is the test's own time limit.
await_lines() { while (($(wc -l <"$1") < $2)); do sleep 0.02; done; }

out=$("$commrun" -n 3 "$member" gather rejoin gather 2>&1)
check "three ranks work together" $? 0
check "each said its lines behind its rank" "$(grep -c '^\[\([0-2]\)\] rank \1: gathered 0 1 2$' <<<"$out")" 6

out=$("$commrun" -n 2 sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR"')
check "variables" "$(sort <<<"$out")" "[0] 0 2 0 2 127.0.0.1"$'\n'"[1] 1 2 1 2 127.0.0.1"
out=$(COMM_SECRET=mine COMM_JOB_ID=mine RANK=7 "$commrun" -n 1 sh -c 'echo "$COMM_SECRET" "$COMM_JOB_ID"')
check "a secret and an id of its own" "$(grep -c mine <<<"$out")" 0

"$commrun" -n 3 sh -c '[ "$RANK" = 1 ] && exit 7; sleep 1000.125' 2>"$scratch/err"
check "the status of the rank that failed" $? 7
check "which is named" "$(cat "$scratch/err")" "commrun: rank 1 exited with status 7"
check "the others were ended" "$(none_left 1000.125)" yes
"$commrun" -n 2 sh -c '[ "$RANK" = 1 ] && kill -KILL $$; sleep 1000.25' 2>/dev/null
check "128 and the signal" $? 137
"$commrun" -n 2 --grace 200ms sh -c 'trap "" TERM; [ "$RANK" = 1 ] && exit 3; while :; do sleep 0.1; done' 2>/dev/null
check "who ignores SIGTERM is killed after the grace" $? 3
"$commrun" -n 2 --timeout 200ms sleep 1000.375 2>/dev/null
check "the time is up" $? 124

"$commrun" -n 2 "$scratch/nothing" 2>"$scratch/err"
check "a program that is not there" $? 127
check "is named" "$(grep -c "cannot run '$scratch/nothing': No such file" "$scratch/err")" 1
touch "$scratch/plain"
"$commrun" -n 2 "$scratch/plain" 2>/dev/null
check "a file that is no program" $? 126
for arguments in "" "-n" "-n x true" "-n 0 true" "-n 5000 true" "-n 2" "--frob true" "-n 2 --timeout x true"; do
  # shellcheck disable=SC2086
  "$commrun" $arguments >/dev/null 2>"$scratch/err"
  check "usage error: $arguments" $? 2
  check "one line about it: $arguments" "$(grep -c '^commrun: ' "$scratch/err")" 1
done
"$commrun" --help >"$scratch/help"
check "help" $? 0
check "help says how" "$(grep -c '^usage: commrun -n RANKS' "$scratch/help")" 1

for signal in INT TERM HUP; do
  begin
  # A shell's background job ignores SIGINT, and so would commrun.
  env --default-signal "$commrun" -n 2 sh -c 'trap "echo got; exit 9" '"$signal"'; echo up; while :; do sleep 0.05; done' >"$scratch/out" 2>/dev/null &
  job=$!
  await_lines "$scratch/out" 2
  kill -s "$signal" "$job"
  wait "$job"
  check "SIG$signal is handed on" $? 9
  check "SIG$signal reached both" "$(grep -c got "$scratch/out")" 2
done
begin
"$commrun" -n 2 sh -c 'trap "echo got" TERM; echo up; while :; do sleep 0.05; done' >"$scratch/out" 2>/dev/null &
job=$!
await_lines "$scratch/out" 2
kill -TERM "$job"
await_lines "$scratch/out" 4
kill -TERM "$job"
wait "$job"
check "the second signal kills" $? 143

begin
"$commrun" -n 2 sh -c 'sleep 1000.5 & sleep 1000.5 & echo up; wait' >"$scratch/out" &
job=$!
await_lines "$scratch/out" 2
kill -KILL "$job"
wait "$job" 2>/dev/null
check "nothing outlives a commrun that was killed, grandchildren neither" "$(none_left 1000.5)" yes
"$commrun" -n 2 sh -c 'sleep 1000.625 & exit 0'
check "a rank that ends well" $? 0
check "leaves nothing" "$(none_left 1000.625)" yes

"$commrun" -n 4 seq 1 20000 | sort | uniq -c | awk '{print $1}' | sort -u >"$scratch/out"
check "lines are whole, and each comes once" "$(cat "$scratch/out")" 1
check "a last line without an end" "$("$commrun" -n 1 printf 'a\nb')" "[0] a"$'\n'"[0] b"
check "standard error stays standard error" "$("$commrun" -n 1 sh -c 'echo x >&2' 2>/dev/null)" ""
check "rank 0 reads the input" "$(echo hello | "$commrun" -n 2 cat)" "[0] hello"
yes | head -c 300000 | tr -d '\n' >"$scratch/long"
check "a long line" "$("$commrun" -n 1 cat "$scratch/long" | wc -c)" $((150000 + 5))
"$commrun" -n 2 yes 2>/dev/null | head -n 3 >/dev/null
check "output that nobody reads ends the job" "${PIPESTATUS[0]}" 141

echo "$checks checks, $failures failures"
exit $((failures > 0))
