#!/usr/bin/env bash
# Measures operators of the kind Memcached (cache.example.com/v1alpha1, with spec.size and
# spec.containerPort), one after another, on the same cluster, and prints a table with a column for each.
#
#   opctl cluster run --name compare --nodes 20 -- \
#       benches/compare.sh MANAGER CRD [FLAG]... [-- MANAGER CRD [FLAG]...]...
#
# MANAGER is a release binary and CRD the manifest of its kind. Each gets its flags and
# --health-probe-bind-address. OPCTL is the opctl to ask for the audit log, OBJECTS how many Memcacheds
# there are (each has up to two pods, and a node takes 110), SIZE how many pods each has at first (with 0 there
# are none at all, and neither scaling nor drift is measured), WRITERS how many kubectl write at a
# time, FOREIGN how many Deployments of nobody are created beside them, and WAIT for how many seconds a phase
# may last. What each operator sent in each phase is told on stderr.
set -euo pipefail
shopt -s nullglob

objects=${OBJECTS:-200}
size=${SIZE:-1}
writers=${WRITERS:-1}
deadline=${WAIT:-$((240 + objects / 2))} # seconds in which a phase has to settle
foreign=${FOREIGN:-0}
quiet=${QUIET:-12} # seconds without a request that end a phase: longer than a status write may be folded
idle=${IDLE:-20} # seconds in which an operator with nothing to do is watched
probe=18099
memcached=$'apiVersion: cache.example.com/v1alpha1\nkind: Memcached'
deployment=$'apiVersion: apps/v1\nkind: Deployment'

die() {
    echo "compare.sh: $*" >&2
    exit 1
}

[[ -n ${KUBECONFIG:-} && -n ${OPCTL_CLUSTER:-} ]] || die "run it by \`opctl cluster run --\`"
audit=$("${OPCTL:-opctl}" cluster status --name "$OPCTL_CLUSTER" -o json |
    sed -n 's/.*"auditLog": "\(.*\)".*/\1/p')
[[ -r $audit ]] || die "no audit log"
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

# === What the API server saw ===

# How awk reads a line of the audit log.
fields='
    function field(text, name) {
        if (!match(text, "\"" name "\":\"[^\"]*")) return ""
        return substr(text, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
    }
    function object_of(line) {
        line = substr(line, index(line, "\"objectRef\":"))
        sub(/}.*/, "", line)
        return line
    }'

# The audit log, of which the API server begins another file at 100 MB.
audited_bytes() { stat -c %s "${audit%.log}"-*.log "$audit" | awk '{ sum += $1 } END { print sum }'; }
audited_since() {
    local from=$1 file size
    for file in "${audit%.log}"-*.log "$audit"; do
        size=$(stat -c %s "$file")
        ((from >= size)) || tail -c "+$((from + 1))" "$file"
        from=$((from > size ? from - size : 0))
    done
}

# The operator's requests since a byte of the audit log, as `verb resource/subresource`. Watches are
# none, nor is what the cluster's own programs and kubectl send.
requests() {
    audited_since "$1" | awk "$fields"'
        /}$/ && field($0, "userAgent") !~ /^(kube-|kubectl|kwok)/ && field($0, "verb") != "watch" {
            object = object_of($0)
            print field($0, "verb"), field(object, "resource") "/" field(object, "subresource")
        }'
}

# From the creation of each Memcached to that of its Deployment: the median and the maximum in
# milliseconds; then the seconds from the first Memcached to the last Deployment.
lags() {
    audited_since "$1" | awk "$fields"'
        function seconds(time, part) {
            split(substr(time, 12), part, /[:Z]/)
            return part[1] * 3600 + part[2] * 60 + part[3]
        }
        /"verb":"(create|patch)"/ && /"code":201/ {
            object = object_of($0)
            name = field(object, "name")
            time = seconds(field($0, "stageTimestamp"))
            if (field(object, "resource") == "memcacheds") {
                made[name] = time
                if (!first) first = time
            } else if (field(object, "resource") == "deployments" && (name in made)) {
                lag = (time - made[name]) * 1000
                for (i = ++count; i > 1 && sorted[i - 1] > lag; i--) sorted[i] = sorted[i - 1]
                sorted[i] = lag
                if (time > last) last = time
            }
        }
        END {
            if (!count) { print "- - -"; exit }
            printf "%.0f %.0f %.2f\n", sorted[int((count + 1) / 2)], sorted[count], last - first
        }'
}

# === What the operator is ===

memory() { awk -v name="$1:" '$1 == name { printf "%.1f", $2 / 1024 }' "/proc/$pid/status"; }

cpu() {
    sed 's/.*) //' "/proc/$pid/stat" |
        awk -v tick="$(getconf CLK_TCK)" '{ printf "%.2f", ($12 + $13) / tick }'
}

# How often the operator was woken up, for whatever reason.
switches() { cat /proc/"$pid"/task/*/status | awk '/^voluntary_ctxt/ { sum += $2 } END { print sum }'; }

is_ready() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$probe" || exit 1
        printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
        read -r -t 5 _ code _ <&3 && [[ $code == 200 ]]
    ) 2>/dev/null
}

# === Whether there is nothing left to be done ===

# Every Deployment and every Memcached is as asked for. What a Memcached does not tell is not asked
# of it.
has_size() {
    local deployments memcacheds
    deployments=$(kubectl get deployments -o jsonpath='{range .items[*]}{.spec.replicas}/{.status.replicas}/{.status.updatedReplicas}/{.status.readyReplicas}{"\n"}{end}')
    local said=$1
    (($1)) || said='0?' # zeros are left out
    [[ $(grep -cxE "$1/$said/$said/$said" <<<"$deployments") == "$objects" ]] || return 1
    memcacheds=$(kubectl get memcacheds -o jsonpath='{range .items[*]}{.metadata.generation}/{.status.observedGeneration}/{.status.readyReplicas}/{.status.conditions[?(@.type=="Available")].status}/{.status.conditions[?(@.type=="Progressing")].status}{"\n"}{end}')
    [[ $(grep -cxE "([0-9]+)/(\1)?/($1)?/True/(False)?" <<<"$memcacheds") == "$objects" ]]
}

is_gone() { [[ -z $(kubectl get memcacheds,deployments -o name) ]]; }

# A phase: what is done, until the check holds and the operator is quiet. Sets `sent`, `took`, `spent`.
phase() {
    local name=$1 check=$2 from begin before last now look seen end
    shift 2
    from=$(audited_bytes)
    before=$(cpu)
    begin=$(date +%s.%N)
    "$@" >/dev/null
    until look=$(date +%s%N) && $check; do
        kill -0 "$pid" || die "the operator ended: $(tail -3 "$work/log")"
        now=$(date +%s%N)
        ((now / 1000000000 - ${begin%.*} < deadline)) || die "$label: $name does not settle in $deadline s"
        # Thousands of objects take seconds to look at, of a machine that is busy with them.
        sleep "$(awk -v took=$((now - look)) 'BEGIN { pause = 4 * took / 1e9; print (pause > 0.5 ? pause : 0.5) }')"
    done
    took=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    last=$(date +%s)
    seen=$from
    while now=$(date +%s) && ((now - last < quiet && now - ${begin%.*} < deadline)); do
        end=$(audited_bytes)
        [[ -z $(requests "$seen") ]] || last=$now
        seen=$end
        sleep 1
    done
    requests "$from" >"$work/requests"
    sent=$(wc -l <"$work/requests")
    $check || die "$label: $name did not stay settled"
    spent=$(awk -v a="$before" -v b="$(cpu)" 'BEGIN { printf "%.2f", b - a }')
    {
        echo "$label, $name: $sent requests, settled in $took s, CPU $spent s"
        sort "$work/requests" | uniq -c
    } >&2
    start_of_phase=$from
}

# What a phase cost: requests per object, and CPU.
cost() { awk -v sent="$sent" -v objects="$objects" -v spent="$spent" 'BEGIN { printf "%.2f / %s\n", sent / objects, spent }'; }
names() { seq -f 'm-%g' "$objects"; }

# Does something with parts of the names that are read, by so many writers at a time.
by_writers() {
    local part writer running=()
    rm -f "$work"/part-*
    split --elide-empty-files -n "r/$writers" - "$work/part-"
    for part in "$work"/part-*; do
        "$@" <"$part" &
        running+=($!)
    done
    for writer in "${running[@]}"; do wait "$writer"; done
}

# Sets a field of the specification of the objects whose names are read. By server-side apply, since
# `kubectl patch` sends at most five requests a second.
set_field() { by_writers write_field "$@"; }
write_field() {
    awk -v type="$1" -v field="$2" -v value="$3" '{
        print "---\n" type "\nmetadata: {name: " $1 "}\nspec: {" field ": " value "}"
    }' | kubectl apply --server-side --force-conflicts --field-manager=compare -f -
}

# Starts the operator, and waits until it is ready: $manager with the flags.
start() {
    ! is_ready || die "port $probe is in use"
    "$manager" "--health-probe-bind-address=127.0.0.1:$probe" "$@" 2>"$work/log" >&2 &
    pid=$!
    until is_ready; do
        kill -0 "$pid" || die "the operator does not start: $(tail -3 "$work/log")"
        sleep 0.01
    done
}

stop() {
    kill "$pid"
    wait "$pid" || true
    pid=
}

# Seconds from a change of the last Memcached to that of its Deployment.
change() {
    local from begin
    from=$(stat -c %s "$audit")
    begin=$(date +%s%N)
    set_field "$memcached" size $((size + 2)) <<<"m-$objects" >/dev/null
    until tail -c "+$((from + 1))" "$audit" | grep -q "\"verb\":\"\(patch\|update\)\".*\"resource\":\"deployments\",\"namespace\":\"compare-$label\",\"name\":\"m-$objects\""; do
        (($(date +%s%N) - begin < deadline * 1000000000)) || die "$label: a change is not acted on"
        sleep 0.05
        (($(stat -c %s "$audit") >= from)) || from=0 # another file
    done
    awk -v a="$begin" -v b="$(date +%s%N)" 'BEGIN { printf "%.1f", (b - a) / 1e9 }'
}

# Deployments of nobody, without pods, in a namespace of their own.
strangers() {
    kubectl create namespace "foreign-$label" >/dev/null
    seq -f 's-%g' "$foreign" | by_writers write_strangers >/dev/null
    sleep "$quiet"
}
write_strangers() {
    awk '{
        print "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " $1 "}"
        print "spec: {replicas: 0, selector: {matchLabels: {app: " $1 "}}, template: {"
        print "  metadata: {labels: {app: " $1 "}}, spec: {containers: [{name: main, image: nobody}]}}}"
    }' | kubectl create --namespace "foreign-$label" -f -
}

create() { names | by_writers write_memcacheds; }
write_memcacheds() {
    awk -v type="$memcached" -v size="$size" '{
        print "---\n" type "\nmetadata: {name: " $1 "}\nspec: {size: " size ", containerPort: 11211}"
    }' | kubectl create -f -
}

# Measures one operator; its column of the table goes to a file, a figure a line.
measure() {
    local label=$1 manager=$2 crd=$3 healed=0 begin from median slowest all before acted
    shift 3
    kubectl create namespace "compare-$label" >/dev/null
    kubectl config set-context --current --namespace "compare-$label" >/dev/null
    kubectl apply --server-side -f "$crd" >/dev/null
    kubectl wait --for=condition=Established -f "$crd" >/dev/null
    {
        begin=$(date +%s%N)
        start "$@"
        begin=$((($(date +%s%N) - begin) / 10000000))
        stat -Lc %s "$manager" | awk '{ printf "%.1f\n", $1 / 1000000 }'
        awk -v it="$begin" 'BEGIN { printf "%.2f\n", it / 100 }'
        sleep 5
        memory VmRSS && echo

        phase create "has_size $size" create
        cost
        read -r median slowest all < <(lags "$start_of_phase")
        printf '%s\n%s / %s\n%s\n' "$all" "$median" "$slowest" "$took"

        if ((size)); then
            healed=$((size + 1))
            phase scale "has_size $healed" set_field "$memcached" size "$healed" < <(names)
            cost
        else
            echo -
        fi
        phase self-heal "has_size $healed" kubectl delete deployments --all --wait=false
        cost
        if ((size)); then
            phase drift "has_size $healed" set_field "$deployment" replicas 5 < <(names)
            cost
        else
            echo -
        fi

        from=$(audited_bytes)
        before=$(switches)
        sleep "$idle"
        requests "$from" | wc -l
        awk -v a="$before" -v b="$(switches)" -v s="$idle" 'BEGIN { printf "%.1f\n", (b - a) / s }'
        memory VmRSS && echo
        all=$(cpu)

        stop
        start "$@"
        acted=$(change)
        sleep "$quiet"
        printf '%s / %s\n' "$acted" "$(cpu)"
        printf '%s / %s\n' "$(memory VmHWM)" "$(memory VmRSS)"
        if ((foreign)); then
            before=$(memory VmRSS)
            strangers
            awk -v a="$before" -v b="$(memory VmRSS)" 'BEGIN { printf "%.1f\n", b - a }'
        else
            echo -
        fi

        phase delete is_gone kubectl delete memcacheds --all --wait=false
        cost
        memory VmHWM && echo
        awk -v a="$all" -v b="$(cpu)" 'BEGIN { printf "%.2f\n", a + b }'
        cut -d' ' -f1-3 /proc/loadavg
    } >"$work/$label"
    stop
    ((foreign == 0)) || kubectl delete namespace "foreign-$label" >/dev/null # the next operator has none
    kubectl delete -f "$crd" >/dev/null
    kubectl delete namespace "compare-$label" --wait=false >/dev/null
}

usage='MANAGER CRD [FLAG]... [-- MANAGER CRD [FLAG]...]...'
# The kubeconfig's namespace is changed only in a copy.
kubectl config view --raw --flatten >"$work/kubeconfig"
export KUBECONFIG=$work/kubeconfig

columns=() names=() operator=()
for argument in "$@" --; do
    if [[ $argument != -- ]]; then
        operator+=("$argument")
        continue
    fi
    ((${#operator[@]} >= 2)) || die "$usage"
    names+=("${operator[0]##*/}")
    columns+=("operator-${#names[@]}") # in a file and in namespaces, whatever the program is called
    measure "${columns[-1]}" "${operator[@]}"
    operator=()
done
cd "$work"

cat >"$work/rows" <<ROWS
binary, MB
from start to ready, s
memory idle without objects, MiB
requests per object / CPU, s: create
from the first Memcached created to the last Deployment, s
from a Memcached to its Deployment, median / maximum, ms
from the first Memcached created to all settled, s
requests per object / CPU, s: scale $size to $((size + 1))
requests per object / CPU, s: self-heal, its Deployment deleted
requests per object / CPU, s: drift, its Deployment's replicas changed
requests in $idle s with nothing to do
wake-ups a second with nothing to do
memory idle with $objects objects, MiB
started again: until a change is acted on / CPU until all is done, s
started again: memory at most / then, MiB
memory for $foreign Deployments of nobody, MiB
requests per object / CPU, s: delete
memory peak, MiB
CPU over the run, s
load average at the end
ROWS
(IFS='|' && echo "| $objects Memcacheds | ${names[*]} |" | sed 's/|\([^ ]\)/ | \1/g')
echo "|---$(printf '|---%.0s' "${columns[@]}")|"
paste -d'|' rows "${columns[@]}" | sed 's/^/| /; s/|\([^ ]\)/ | \1/g; s/$/ |/'
