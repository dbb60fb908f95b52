# Starts Kubernetes in the machine, and ends with standard input: all processes end with this first one.
set -eu
umount -l /host
mount --make-rshared / # as the kubelet and containerd expect it

server=https://$ADDRESS:6443
keys=$SHARED/keys
mkdir -p "$keys" /data/kubelet

# run PROGRAM ARGUMENT...: in the background, with a log.
run() {
  "$@" >"$SHARED/logs/$1.log" 2>&1 </dev/null &
}

# keep PROGRAM ARGUMENT...: the same, again whenever it ends, as a node keeps its services.
keep() {
  while :; do
    "$@" || sleep 0.5
  done >>"$SHARED/logs/$1.log" 2>&1 </dev/null &
}

# kubeconfig NAME USER GROUPS: a user with a token.
kubeconfig() {
  echo "$1-token,$2,$1,\"$3\"" >>"$keys/tokens.csv"
  cat >"$SHARED/$1.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "$server", certificate-authority: "$keys/apiserver.crt"}}]
users: [{name: user, user: {token: $1-token}}]
contexts: [{name: node, context: {cluster: node, user: user}}]
current-context: node
EOF
}

# storage: the default class, with directories as its volumes.
storage() {
  cat <<EOF
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
EOF
  local mode=ReadWriteOnce
  for number in $(seq -w 24); do
    mkdir -p "/data/volumes/$number"
    [ "$((10#$number))" -le 12 ] || mode=ReadWriteOncePod
    cat <<EOF
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-$number}
spec:
  accessModes: [$mode]
  capacity: {storage: 10Gi}
  local: {path: /data/volumes/$number}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: standard
EOF
  done
}

start() {
  kubeconfig admin admin system:masters
  kubeconfig controller-manager system:kube-controller-manager ""
  kubeconfig scheduler system:kube-scheduler ""
  kubeconfig kubelet system:node:node system:nodes
  kubeconfig proxy system:kube-proxy ""
  kubeconfig dns dns system:masters
  openssl genrsa -out "$keys/accounts.key" 2048 2>/dev/null

  keep containerd --config /config/containerd.toml
  run etcd --data-dir /run/etcd --unsafe-no-fsync
  run kube-apiserver \
    --advertise-address "$ADDRESS" --bind-address "$ADDRESS" --cert-dir "$keys" \
    --etcd-servers http://127.0.0.1:2379 --service-cluster-ip-range 10.96.0.0/16 \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
    --token-auth-file "$keys/tokens.csv" \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$keys/accounts.key" \
    --service-account-signing-key-file "$keys/accounts.key" \
    --kubelet-preferred-address-types InternalIP

  until kubectl --kubeconfig "$SHARED/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do
    kill -0 $! # it runs
    sleep 0.1
  done
  run kube-controller-manager --kubeconfig "$SHARED/controller-manager.kubeconfig" --leader-elect=false \
    --use-service-account-credentials --root-ca-file "$keys/apiserver.crt" \
    --service-account-private-key-file "$keys/accounts.key"
  run kube-scheduler --kubeconfig "$SHARED/scheduler.kubeconfig" --leader-elect=false
  # The limits of connection tracking are the host's.
  run kube-proxy --kubeconfig "$SHARED/proxy.kubeconfig" --hostname-override node \
    --proxy-mode nftables --cluster-cidr 10.244.0.0/24 --oom-score-adj 0 \
    --conntrack-min 0 --conntrack-max-per-core 0 \
    --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
  run coredns -conf /config/Corefile
  keep kubelet --config /config/kubelet.yaml --cgroup-root "/$CGROUP" --kubeconfig "$SHARED/kubelet.kubeconfig" \
    --root-dir /data/kubelet --cert-dir /run/kubelet --node-ip "$ADDRESS" --hostname-override node

  for image in "$SHARED"/images/*.tar; do
    ctr --namespace k8s.io images import "$image" >>"$SHARED/logs/images.log" 2>&1
  done
  storage | kubectl --kubeconfig "$SHARED/admin.kubeconfig" apply --server-side -f - >"$SHARED/logs/storage.log"
}

(
  trap '[ $? = 0 ] && echo ready || echo failed' EXIT
  start
) &
cat >/dev/null
