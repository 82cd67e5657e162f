#!/bin/bash
# shellcheck disable=SC2016  # The programs expand their own arguments.
# bazelw chooses a Bazel and installs what is missing, seen from outside: apt-get, sudo and the Bazels
# are scripts that say what they were called with.
set -euo pipefail

readonly BAZELW=$PWD/bazelw
readonly TOOLS="bash env dirname cat"
failures=0

# A machine of its own: only what is put on PATH is there.
new_machine() {
  machine=$(mktemp -d "$TEST_TMPDIR/machine.XXXXXX")
  mkdir "$machine/bin"
  local tool
  for tool in $TOOLS; do ln -s "$(command -v "$tool")" "$machine/bin/"; done
  program id 'echo 0'
}

program() { # NAME TEXT
  rm -f "$machine/bin/$1"  # Never write through a link to the real one.
  printf '#!/bin/bash\n%s\n' "$2" >"$machine/bin/$1"
  chmod +x "$machine/bin/$1"
}

bazelw() {
  (cd "$machine" && env -i PATH="$machine/bin" ${user_bazel:+BAZEL="$user_bazel"} "$BAZELW" "$@") \
    >"$machine/out" 2>&1
}

expect() { # WORDS
  if ! grep -qF -- "$1" "$machine/out"; then
    echo "FAILED: $name: expected '$1', got:" && sed 's/^/  /' "$machine/out"
    failures=$((failures + 1))
  fi
}

test_case() {
  name=$1
  user_bazel=
  new_machine
}

# The programs that builds and tests need, all but Bazel, as bazelw lists them.
all_tools() {
  local group sign
  while read -r group sign _; do
    if [[ $group == build || $group == test ]] && [[ $sign != /* ]]; then program "$sign" ''; fi
  done < <(sed -n '/^readonly NEEDS=/,/^"$/p' "$BAZELW")
}

test_case "bazelisk is asked for the version that MODULE.bazel was written for"
all_tools
program bazelisk 'echo "bazelisk $USE_BAZEL_VERSION: $*"'
bazelw build //comm
expect "bazelisk 7"
expect ": build //comm"

test_case "a Bazel that is new enough runs with all arguments as they are"
all_tools
program bazel '[[ $1 == --version ]] && echo "bazel 8.0.1" || printf "<%s>" "$@"'
bazelw test --test_arg='a b' //...
expect "<test><--test_arg=a b><//...>"

test_case "BAZEL overrides the choice"
all_tools
program bazelisk 'echo bazelisk'
program mine 'echo "mine: $*"'
user_bazel=$machine/bin/mine
bazelw build //comm
expect "mine: build //comm"

test_case "what is missing is installed, after it was named"
program apt-get 'echo "apt-get: $*"'
program bazelisk 'echo "bazelisk: $*"'
bazelw test //...
expect "bazelw: installing g++ python3"
expect " clang binutils"
expect "apt-get: -qq -o=Dpkg::Use-Pty=0 install -y --no-install-recommends g++ python3"
expect "bazelisk: test //..."

test_case "what only tests need is not installed for a build"
all_tools
rm "$machine/bin/clang++"
program apt-get 'exit 1'
program bazelisk 'echo "bazelisk: $*"'
bazelw build //comm
expect "bazelisk: build //comm"

test_case "sudo is used where there is no root"
all_tools
rm "$machine/bin/g++"
program bazelisk 'echo ran'
program id 'echo 1000'
program sudo 'echo "sudo: $*"'
program apt-get 'exit 1'
bazelw build //comm
expect "sudo: env DEBIAN_FRONTEND=noninteractive apt-get"

test_case "without root and sudo the command to run is named"
all_tools
rm "$machine/bin/g++"
program bazelisk 'echo ran'
program id 'echo 1000'
program apt-get 'exit 1'
! bazelw build //comm || expect "(a failure)"
expect "run as root: apt-get install g++"

test_case "a system without apt-get is told what to install"
all_tools
rm "$machine/bin/g++"
program bazelisk 'echo ran'
! bazelw build //comm || expect "(a failure)"
expect "not found: g++"
expect "no apt-get"

test_case "a failed installation is an error"
all_tools
rm "$machine/bin/g++"
program bazelisk 'echo ran'
program apt-get 'exit 1'
! bazelw build //comm || expect "(a failure)"
expect "apt-get could not install g++"

echo "$failures failures"
[[ $failures -eq 0 ]]
