#!/bin/sh
# Builds the image of one operator again and again, and compares the digests.
#
#   tests/reproducible.sh [BUILDS [COLD]]
#
# The COLD first of the BUILDS (by default 3 of 10) compile everything, each in a directory of its own; the others
# compile the operator in one of these directories again. Directories, target directories, jobs, locale, time zone,
# umask and the times of the files differ. The program is OPCTL, by default `opctl`, and the directories are in
# TMPDIR. A cold build takes minutes and 2 GB.
set -eu

builds=${1:-10}
cold=${2:-3}
opctl=${OPCTL:-opctl}
work=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000

create() {
    mkdir -p "$1"
    cd "$1"
    "$opctl" --quiet init --domain example.com --project-name memcached-operator
    "$opctl" --quiet create api --group cache --version v1alpha1 --kind Memcached
}

: >"$work/digests"
for build in $(seq "$builds"); do
    place=$(((build - 1) % cold))
    directory=$work/$(printf "%0$((place * 9 + 1))d" 0)/project-$place
    test -d "$directory" || (create "$directory")
    cd "$directory"
    # One that is not in the project.
    if test $((place % 2)) = 1; then export CARGO_TARGET_DIR="$work/target-$place"; else unset CARGO_TARGET_DIR; fi
    find src runtime -name '*.rs' -exec touch {} +
    start=$(date +%s)
    image=$(
        umask "$(test $((build % 2)) = 0 && echo 077 || echo 022)"
        export CARGO_BUILD_JOBS=$((build % 4 + 1)) TZ="UTC$build" LC_ALL="$(test $((build % 2)) = 0 && echo C || echo C.UTF-8)"
        "$opctl" --quiet image build --output "$work/image"
    )
    echo "$build: ${image#*@} in $(($(date +%s) - start)) s"
    echo "${image#*@}" >>"$work/digests"
done
different=$(sort -u "$work/digests" | wc -l)
echo "$builds builds, $cold of them cold: $different digest(s)"
test "$different" = 1
