#!/bin/bash
# The first process of the machine: makes its root and its network, and starts Kubernetes. `DIRECTORY/shared`
# has the same path inside and outside.
set -eu
tree=$1 programs=$2 directory=$3 cgroup=$4
here=$(cd "$(dirname "$0")" && pwd)
shared=$directory/shared
root=$directory/root
address=10.200.0.1

mount --make-rprivate /
mkdir -p "$root" "$directory/upper" "$directory/work" "$directory/data" "$shared/logs"
mount -t overlay -o "lowerdir=$tree,upperdir=$directory/upper,workdir=$directory/work" overlay "$root"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/data" "$root/config" "$root/programs" "$root$shared"
mount --bind "$directory/data" "$root/data" # no overlay, for the images are mounted as one
mount --bind "$programs" "$root/programs"
mount --bind "$here/config" "$root/config"
mount --bind "$shared" "$root$shared"
mount --bind "$shared/logs" "$root/var/log"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
# The kubelet sets some of the kernel's parameters, which are the host's: let it set copies.
for parameter in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy=$root/run/${parameter//\//-}
  cat "/proc/sys/$parameter" >"$copy"
  mount --bind "$copy" "$root/proc/sys/$parameter"
done

echo "127.0.0.1 localhost" >"$root/etc/hosts"
echo "root:x:0:0::/root:/bin/bash" >"$root/etc/passwd"
rm -f "$root/etc/resolv.conf" # of the host, whose servers are out of reach
hostname node
ip link set lo up
ip link add eth0 type veth peer name uplink
ip link set uplink up
ip link set eth0 up
ip address add "$address/24" dev eth0
ip route add default via 10.200.0.254 dev eth0 # nobody is there
echo 1 >/proc/sys/net/ipv4/ip_forward

# A chroot would not do: runc mixes up the paths of mounts in one.
mkdir "$root/host"
cd "$root"
pivot_root . host
exec env -i PATH=/programs:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  CGROUP="$cgroup" SHARED="$shared" ADDRESS="$address" \
  chroot . /bin/bash /config/kubernetes.sh
