#!/usr/bin/env bash
# Shows that the tests of the engine can fail. Each patch breaks a promise, and its first line names the test
# that has to notice. Prints the mutants that survive; exits with 1 if there are any.
#
#   tests/mutants/run.sh [PATCH...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(git -C "$here" rev-parse --show-toplevel)
copy=$(mktemp -d)
trap 'git -C "$repository" worktree remove --force "$copy"' EXIT
git -C "$repository" worktree add --quiet --detach "$copy"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$repository/target}/mutants

survivors=0
[ $# -gt 0 ] || set -- "$here"/*.patch
for patch in "$@"; do
  name=$(basename "$patch" .patch)
  read -r _ test < "$patch"
  git -C "$copy" apply "$patch"
  # shellcheck disable=SC2086 # the test is several words
  if ! (cd "$copy" && cargo test --quiet --no-run -p opctl ${test%% -- *}) >/dev/null 2>&1; then
    echo "invalid   $name: does not compile"
    survivors=1
  elif (cd "$copy" && timeout 300 cargo test --quiet -p opctl $test) >/dev/null 2>&1; then
    echo "SURVIVES  $name: cargo test $test"
    survivors=1
  else
    echo "killed    $name"
  fi
  git -C "$copy" checkout --quiet .
done
exit $survivors
