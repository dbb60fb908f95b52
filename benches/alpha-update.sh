#!/usr/bin/env bash
# Measures how many conflicts `kubebuilder alpha update` leaves in a project with common edits, those of
# tests/end_to_end/update/edits.rs, and prints a table with a row for each edit.
#
#   benches/alpha-update.sh FROM TO [EDIT]...
#
# FROM and TO are versions of kubebuilder, for example v4.8.0 and v4.15.0. It needs Go, git and make, and
# the Go module proxy alone: both versions are built from their modules. The `alpha update` that runs is
# that of TO with one change: it downloads both binaries from a local server instead of GitHub. `make
# lint-fix`, which kubebuilder runs but may fail, is skipped. WORK is a directory to keep, and PORT the port
# of the server.
set -euo pipefail

(($# >= 2)) || { echo "usage: alpha-update.sh FROM TO [EDIT]..." >&2 && exit 2; }
from=$1 to=$2 port=${PORT:-18199}
. "$(dirname "$0")/alpha-update-edits.sh"
work=${WORK:-$(mktemp -d)}
mkdir -p "$work/bin" && work=$(cd "$work" && pwd)
server=
log=
trap '(($? == 0)) || [[ -z $log ]] || tail "$log" >&2
    [[ -z $server ]] || kill "$server"
    [[ -n ${WORK:-} ]] || rm -rf "$work"' EXIT
# controller-gen is shared by the runs; no version of golangci-lint, so that `make lint-fix` fails at once.
export LOCALBIN=$work/localbin GOLANGCI_LINT_VERSION=none
export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@example.com
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL

# === kubebuilder ===

module=sigs.k8s.io/kubebuilder/v4
binary=kubebuilder_$(go env GOOS)_$(go env GOARCH)

# Builds a version from its module; the program then reports that version.
build() {
    mkdir -p "$work/module-$1" "$work/serve/$1"
    cd "$work/module-$1"
    [[ -e go.mod ]] || go mod init example.com/bench
    go mod edit -require "$module@$1"
    go build -mod=mod -o "$work/serve/$1/$binary" "$module"
}

build_updater() {
    cd "$work/module-$to"
    rm -rf "$work/source"
    cp -r "$(go list -m -f '{{.Dir}}' "$module")" "$work/source"
    chmod -R u+w "$work/source"
    cd "$work/source"
    replace internal/cli/alpha/internal/update/helpers/download.go \
        https://github.com/kubernetes-sigs/kubebuilder/releases/download "http://127.0.0.1:$port"
    go build -buildvcs=false -o "$work/bin/updater" .
}

serve() {
    cat >"$work/serve.go" <<GO
package main

import "net/http"

func main() {
	panic(http.ListenAndServe("127.0.0.1:$port", http.FileServer(http.Dir("$work/serve"))))
}
GO
    go build -o "$work/bin/serve" "$work/serve.go"
    "$work/bin/serve" &
    server=$!
}

# The project: a complete operator, that of the deploy-image plugin.
scaffold() {
    rm -rf "$work/base" && mkdir -p "$work/base/my-operator" && cd "$work/base/my-operator"
    local kubebuilder=$work/serve/$from/$binary
    git init -q -b main
    "$kubebuilder" init --domain example.com --repo example.com/my-operator
    "$kubebuilder" create api --group cache --version v1alpha1 --kind Memcached \
        --plugins deploy-image/v1-alpha --image memcached:1.6.26-alpine3.19 --run-as-user 1001 \
        --image-container-command memcached,--memory-limit=64,-o,modern,-v --image-container-port 11211
    make manifests generate fmt
    git add --all && git commit -qm "kubebuilder $from"
}

# === What is left ===

# The lines that an edit added to files that nothing generates, and that are in no file of the result, and
# the files that it deleted and the result has.
lost() {
    git diff main~ main -- . ':!config/crd' ':!config/rbac' ':!go.sum' | sed -n 's/^+\([^+]\)/\1/p' |
        while IFS= read -r line; do git grep -qF -e "$line" HEAD || echo "$line"; done
    git diff --name-only --diff-filter=D main~ main |
        while read -r file; do [[ ! -e $file ]] || echo "$file is not deleted"; done
}

# The files in conflict that are so in the result: with markers, or changed here and deleted there.
conflicts() {
    git rev-parse -q --verify HEAD^2 >/dev/null || return 0 # without edits it is a fast-forward
    { git merge-tree --write-tree --name-only --no-messages HEAD^1 HEAD^2 || true; } | tail -n +2 |
        while read -r file; do
            if git grep -q '^<<<<<<< ' HEAD -- "$file" || ! git cat-file -e "HEAD^1:$file" ||
                ! git cat-file -e "HEAD^2:$file"; then echo "$file"; fi
        done
}

measure() {
    local compiles=no hunks
    rm -rf "${work:?}/$1"
    mkdir "$work/$1"
    cp -r "$work/base/my-operator" "$work/$1"
    cd "$work/$1/my-operator"
    log=$work/$1/log
    {
        "$1"
        make manifests generate fmt
        go vet ./...
        git add --all
        git commit -q --allow-empty -m "$1"
        "$work/bin/updater" alpha update --to-version "$to" --force --show-commits
        conflicts >"$work/$1/conflicts"
        lost >"$work/$1/lost"
        if go build ./... && go vet ./...; then compiles=yes; fi
    } >"$log" 2>&1
    git grep -h '^<<<<<<< ' HEAD >"$work/$1/hunks" || true
    hunks=$(count "$work/$1/hunks")
    echo "| $1 | $(count "$work/$1/conflicts") | $hunks | $(count "$work/$1/lost") | $compiles |"
    if [[ $1 == none ]]; then git diff --shortstat main HEAD >"$work/change"; fi
}

count() { grep -c . "$1" || true; }

for version in "$from" "$to"; do build "$version" >&2; done
build_updater >&2
serve
scaffold >&2
shift 2
(($# > 0)) || set -- none "${edits[@]}" all
echo "| $from to $to | files in conflict | hunks | edits lost | compiles |"
echo "|---|---|---|---|---|"
for edit in "$@"; do measure "$edit"; done
[[ ! -e $work/change ]] || echo "The change of the scaffold:$(cat "$work/change")"
