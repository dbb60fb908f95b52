# Gives a tree the shell and the tools of Alpine: BusyBox, which every image has.
for tool in $(usr/bin/busybox --list); do
  [ "$tool" = busybox ] || ln -sf busybox "usr/bin/$tool"
  rm -f "usr/sbin/$tool"
done
for directory in bin sbin lib lib64; do
  [ -e "$directory" ] || ln -s "usr/$directory" "$directory"
done
mkdir -p tmp usr/sbin
chmod 1777 tmp
rm -f etc/resolv.conf
echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd
echo 'root:x:0:' >etc/group
