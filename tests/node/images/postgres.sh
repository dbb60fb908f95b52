# Lays a tree out as the image postgres:alpine.
echo 'postgres:x:70:70::/var/lib/postgresql:/bin/sh' >>etc/passwd
echo 'postgres:x:70:' >>etc/group
mkdir -p usr/local/bin
for program in usr/lib/postgresql/*/bin/*; do
  ln -s "/$program" usr/local/bin/
done
