# Lays a tree out as the image memcached:alpine.
echo 'memcache:x:11211:11211::/:/sbin/nologin' >>etc/passwd
mkdir -p usr/local/bin
mv usr/bin/memcached usr/local/bin/
cat >usr/local/bin/docker-entrypoint.sh <<'EOF'
#!/bin/sh
set -e
if [ "${1#-}" != "$1" ]; then
	set -- memcached "$@"
fi
exec "$@"
EOF
chmod +x usr/local/bin/docker-entrypoint.sh
