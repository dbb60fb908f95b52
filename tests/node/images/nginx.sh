# Lays a tree out as the image nginxinc/nginx-unprivileged:alpine.
echo 'nginx:x:101:101::/var/cache/nginx:/sbin/nologin' >>etc/passwd
mkdir -p usr/share/nginx/html var/log/nginx
echo '<h1>Welcome to nginx!</h1>' >usr/share/nginx/html/index.html
ln -sf /dev/stdout var/log/nginx/access.log
ln -sf /dev/stderr var/log/nginx/error.log
cat >etc/nginx/nginx.conf <<'EOF'
worker_processes auto;
error_log /var/log/nginx/error.log notice;
pid /tmp/nginx.pid;
events { worker_connections 1024; }
http {
    proxy_temp_path /tmp/proxy_temp;
    client_body_temp_path /tmp/client_temp;
    fastcgi_temp_path /tmp/fastcgi_temp;
    uwsgi_temp_path /tmp/uwsgi_temp;
    scgi_temp_path /tmp/scgi_temp;
    include /etc/nginx/mime.types;
    access_log /var/log/nginx/access.log;
    keepalive_timeout 65;
    server {
        listen 8080;
        location / { root /usr/share/nginx/html; index index.html; }
    }
}
EOF
