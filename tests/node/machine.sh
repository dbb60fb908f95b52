#!/bin/bash
# A machine of its own in namespaces: its root is a copy of a directory tree, and its network that of this
# script. It runs boot.sh, and is gone when standard input ends, so that it does not outlive its test.
#
#     unshare --net machine.sh TREE PROGRAMS DIRECTORY
set -eu
tree=$1 programs=$2 directory=$3
here=$(cd "$(dirname "$0")" && pwd)
# Terminals send these to the whole group, but the test ends the machine.
trap '' INT TERM HUP

cgroups() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d
  fi
}

# What a machine leaves that ended, and whose machine.sh did not get here.
sweep() {
  for left in $(cgroups | xargs -I{} find {} -maxdepth 1 -name "opctl-node-$1"); do
    [ -d "/proc/${left##*-}" ] && [ "${left##*-}" != $$ ] && continue
    find "$left" -depth -type d -exec rmdir {} +
  done
}

sweep '*'
cgroup=opctl-node-$$
for controller in $(cgroups); do
  mkdir "$controller/$cgroup"
done
# Pods ask for little: where a machine is busy, all that is not in a pod would come first.
for weight in /sys/fs/cgroup/{,*/}"$cgroup"/cpu.{weight,shares}; do
  [ ! -e "$weight" ] || echo 10000 >"$weight"
done

unshare --mount --pid --ipc --uts --fork --kill-child --mount-proc \
  "$here/boot.sh" "$tree" "$programs" "$directory" "$cgroup" || true

# Dying processes hold their cgroup a little longer.
for _ in $(seq 50); do
  sweep $$ 2>/dev/null && break
  sleep 0.1
done
sweep $$
rm -rf "$directory"
