#!/usr/bin/env bash
# The launchers of Open MPI and MPICH as Debian has them start a comm program on this host with no
# variable set by hand.
#   mpi_test.sh MEMBER
set -uo pipefail
member=$1
failures=0
# Open MPI wants to be asked twice before it runs as root, which is what CI often is.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR=${TEST_TMPDIR:-/tmp}

# The arguments are a name and the launcher's command line; it starts three ranks.
check() {
  local name=$1 out status
  shift
  out=$(timeout 60 "$@" "$member" gather rejoin gather 2>&1 </dev/null)
  status=$?
  if [[ $status != 0 || $(grep -c 'gathered 0 1 2$' <<<"$out") != 6 ]]; then
    echo "FAILED: $name exited with $status: $out"
    failures=$((failures + 1))
  else
    echo "passed: $name"
  fi
}

for launcher in mpirun.openmpi mpirun.mpich; do
  if ! command -v "$launcher" >/dev/null; then
    echo "FAILED: $launcher is not installed (./bazelw installs it)"
    failures=$((failures + 1))
  fi
done
check "Open MPI" mpirun.openmpi --oversubscribe -n 3
check "MPICH" mpirun.mpich -n 3
check "MPICH through a shell" mpirun.mpich -n 3 sh -c '"$@" && exit' sh

# Two jobs of the same launcher at once do not meet.
for launcher in "mpirun.openmpi --oversubscribe" mpirun.mpich; do
  # shellcheck disable=SC2086
  timeout 60 $launcher -n 2 "$member" gather rejoin gather >"$TMPDIR/first.$$" 2>&1 </dev/null &
  # shellcheck disable=SC2086
  check "beside another job: $launcher" $launcher -n 3
  wait $! || { echo "FAILED: the other job of $launcher"; failures=$((failures + 1)); }
  rm -f "$TMPDIR/first.$$"
done
exit $((failures > 0))
