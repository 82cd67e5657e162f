#!/usr/bin/env bash
# Two hosts, as network namespaces with a cable (veth) between them: addresses of their own, names
# that mean another thing on each, and a cable that is pulled.
#   two_hosts_test.sh MEMBER
# Where the machine gives no network namespaces it says NOT RUN, and why, as its last line.
set -uo pipefail
member=$(realpath "$1")
scratch=${TEST_TMPDIR:-$(mktemp -d)}

if [[ ${2:-} != inside ]]; then
  for how in "unshare -nm" "unshare -Urnm"; do
    if $how sh -c 'ip link add name cable0 type veth peer name cable1 && mount -t tmpfs none /mnt' 2>"$scratch/why"; then
      # shellcheck disable=SC2086
      exec $how bash "$0" "$member" inside
    fi
  done
  echo "NOT RUN: no network and mount namespaces here: $(tail -n 1 "$scratch/why")"
  exit 0
fi

checks=0 failures=0
check() {
  checks=$((checks + 1))
  if [[ "$2" != "$3" ]]; then
    failures=$((failures + 1))
    echo "FAILED: $1: got '$2', expected '$3'"
    cat "$scratch"/rank? 2>/dev/null
  fi
}

# This shell is host 1; host 2 is a process that sleeps in namespaces of its own.
mkfifo "$scratch/ready"
# shellcheck disable=SC2016
unshare -nm sh -c 'echo > "$1"; exec sleep 100000' sh "$scratch/ready" &
host2=$!
trap 'kill $host2' EXIT
read -r <"$scratch/ready"
on2() { nsenter -t "$host2" -n -m -- "$@"; }

ip link add name cable type veth peer name cable2
ip link set cable2 netns "$host2"
ip link set lo up && ip addr add 10.77.0.1/24 dev cable && ip addr add fd77::1/64 dev cable nodad
ip link set cable up
on2 ip link set lo up && on2 ip addr add 10.77.0.2/24 dev cable2
on2 ip addr add fd77::2/64 dev cable2 nodad && on2 ip link set cable2 up
echo "127.0.0.1 localhost
127.0.1.1 head" >"$scratch/hosts1"
echo "127.0.0.1 localhost
10.77.0.1 head" >"$scratch/hosts2"
mount --bind "$scratch/hosts1" /etc/hosts
on2 mount --bind "$scratch/hosts2" /etc/hosts

export COMM_INIT_TIMEOUT=30s WORLD_SIZE=2 MASTER_PORT=29500
# Runs rank 0 on host 1 and rank 1 on host 2; the arguments are variables, "--", what the ranks do.
both() {
  local variables=()
  while [[ $1 != -- ]]; do variables+=("$1") && shift; done
  shift
  env "${variables[@]}" RANK=0 "$member" "$@" >"$scratch/rank0" 2>&1 &
  local root=$!
  on2 env "${variables[@]}" RANK=1 "$member" "$@" >"$scratch/rank1" 2>&1
  local status=$?
  wait "$root" && [[ $status == 0 ]] && echo met
}

check "IPv4 address" "$(both MASTER_ADDR=10.77.0.1 -- gather rejoin gather)" met
check "a given address is no reason to listen everywhere" "$(grep -c 'all addresses' "$scratch/rank0")" 0
check "a public address without a secret is warned about" "$(grep -c 'without a secret' "$scratch/rank0")" 1
check "IPv6 address" "$(both MASTER_ADDR=fd77::1 COMM_SECRET=s -- gather)" met
check "with a secret there is nothing to warn about" "$(grep -c 'secret' "$scratch/rank0")" 0
check "an interface" "$(both MASTER_ADDR=10.77.0.1 COMM_BIND=cable -- gather)" met
check "FAULTS 12: the head's own name is 127.0.1.1 on itself" "$(both MASTER_ADDR=head -- gather)" met
check "a file" "$(both COMM_RENDEZVOUS_FILE="$scratch/file" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 -- gather)" met

# In place: a file that took its place would not be the one that is mounted.
echo "127.0.0.1 localhost" >"$scratch/hosts2"
check "a name that is not there" "$(on2 getent hosts head)" ""
(
  sleep 0.5
  echo "10.77.0.1 head" >>"$scratch/hosts2"
) &
check "a name that appears late" "$(both MASTER_ADDR=head -- gather)" met
check "a second address that answers is tried after one that does not" "$(
  echo "10.77.0.99 two
10.77.0.1 two" >>"$scratch/hosts2"
  echo "10.77.0.1 two" >>"$scratch/hosts1"
  both MASTER_ADDR=two -- gather
)" met

MASTER_ADDR=10.77.0.1 COMM_PEER_TIMEOUT=2s RANK=0 "$member" barrier watch >"$scratch/rank0" 2>&1 &
root=$!
MASTER_ADDR=10.77.0.1 COMM_PEER_TIMEOUT=2s RANK=1 on2 "$member" barrier watch >"$scratch/rank1" 2>&1 &
other=$!
until grep -q "barrier ok" "$scratch/rank0" && grep -q "barrier ok" "$scratch/rank1"; do sleep 0.05; done
pulled=$(date +%s)
on2 ip link set cable2 down
wait "$root" "$other"
check "FAULTS 13: a cable that is pulled is a lost peer on one side" "$(grep -c 'lost rank 1' "$scratch/rank0")" 1
check "FAULTS 13: and on the other" "$(grep -c 'lost rank 0' "$scratch/rank1")" 1
took=$(($(date +%s) - pulled))
check "FAULTS 13: within a few of the seconds that were asked for ($took)" "$((took < 20))" 1

echo "$checks checks, $failures failures; the pulled cable was noticed after $took s"
exit $((failures > 0))
