# shellcheck shell=bash disable=SC2034
# What people do to a project of kubebuilder's deploy-image plugin: the edits of tests/end_to_end/update/edits.rs, each a
# function that alpha-update.sh calls in the project.

types=api/v1alpha1/memcached_types.go
controller=internal/controller/memcached_controller.go
test=internal/controller/memcached_controller_test.go

# Inserts stdin before or after the first line of a file that matches.
insert() {
    cat >"$work/text"
    awk -v where="$1" -v pattern="$3" -v text="$work/text" '
        function copy(line) { while ((getline line <text) > 0) print line }
        $0 !~ pattern || found { print; next }
        where == "before" { copy() }
        { found = 1; print }
        where == "after" { copy() }
        END { exit !found }' "$2" >"$work/inserted" || { echo "no $3 in $2" >&2 && return 1; }
    cat "$work/inserted" >"$2"
}

replace() {
    grep -q -e "$2" "$1" || { echo "no $2 in $1" >&2 && return 1; }
    sed -i "s|$2|$3|" "$1"
}

rbac() {
    insert after $controller 'rbac:groups=core,resources=pods' \
        <<<"// +kubebuilder:rbac:groups=core,resources=$1,verbs=get;list;watch;create;update;patch"
}

reconcile() { insert before $controller '// Check if the deployment already exists'; }

error() { printf '\tif err := %s; err != nil {\n\t\treturn ctrl.Result{}, err\n\t}\n\n' "$1"; }

field() {
    insert after $types '^.ContainerPort +int32' <<'GO'

	// memory for items, in MiB
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=64
	// +optional
	Memory int32 `json:"memory,omitempty"`
GO
    replace $controller '"--memory-limit=64"' 'fmt.Sprintf("--memory-limit=%d", memcached.Spec.Memory)'
    insert after $test 'ContainerPort: ' <<<$'\t\t\t\t\t\tMemory: 64,'
}

child() {
    rbac services
    insert after $controller 'Owns[(]&appsv1.Deployment' <<<$'\t\tOwns(&corev1.Service{}).'
    error 'r.applyService(ctx, memcached)' | reconcile
    insert before $controller '^// labelsForMemcached' <<'GO'
// applyService creates or updates the Service by which clients find the servers.
func (r *MemcachedReconciler) applyService(ctx context.Context, memcached *cachev1alpha1.Memcached) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: memcached.Name, Namespace: memcached.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.Selector = labelsForMemcached()
		service.Spec.Ports = []corev1.ServicePort{{Port: memcached.Spec.ContainerPort}}
		return ctrl.SetControllerReference(memcached, service, r.Scheme)
	})
	return err
}

GO
}

module() {
    rbac configmaps
    insert after $controller '^.cachev1alpha1 "' <<<$'\t"example.com/my-operator/internal/settings"'
    error 'settings.Apply(ctx, r.Client, memcached.Namespace, memcached.Name)' | reconcile
    mkdir internal/settings
    cat >internal/settings/settings.go <<'GO'
// Package settings writes the settings of the servers.
package settings

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Apply creates or updates the ConfigMap of a Memcached.
func Apply(ctx context.Context, c client.Client, namespace, name string) error {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, c, settings, func() error { return nil })
	return err
}
GO
}

log() { reconcile <<<$'\tlog.V(1).Info("reconciling", "size", memcached.Spec.Size)\n'; }

unit_test() {
    insert before $test '^..It[(]"' <<'GO'
		It("should name its finalizer by its group", func() {
			Expect(memcachedFinalizer).To(HavePrefix("cache.example.com/"))
		})

GO
}

integration_test() {
    insert after test/e2e/e2e_test.go 'scaffold:e2e-webhooks-checks' <<'GO'

		It("should keep its namespace", func() {
			_, err := utils.Run(exec.Command("kubectl", "get", "ns", namespace))
			Expect(err).NotTo(HaveOccurred())
		})
GO
}

main() { insert before cmd/main.go 'ctrl.NewManager' <<<$'\tsetupLog.Info("the operator of the cache team")\n'; }

dependency() {
    cat >internal/controller/bytes.go <<'GO'
package controller

import "github.com/dustin/go-humanize"

var _ = humanize.Bytes
GO
    go get github.com/dustin/go-humanize@v1.0.1
    go mod tidy
}

makefile() {
    replace Makefile 'IMG ?= controller:latest' 'IMG ?= registry.example.com/cache/my-operator:1.2.3'
    printf '\n.PHONY: bench\nbench: ## Measure the servers.\n\t./bench.sh\n' >>Makefile
}

resources() {
    replace config/manager/manager.yaml 'memory: 128Mi' 'memory: 512Mi'
    replace config/manager/manager.yaml 'cpu: 10m' 'cpu: 50m'
}

feature() { replace config/default/kustomization.yaml '^#- ../prometheus' '- ../prometheus'; }
sample() { replace config/samples/cache_v1alpha1_memcached.yaml 'size: 1' 'size: 5'; }
readme() { printf '# The cache operator\n\nAsk the cache team.\n' >README.md; }
workflow() { rm .github/workflows/lint.yml; }

# Without other widths: gofmt has no options.
edits=(field child module log unit_test integration_test main dependency makefile resources feature sample
    readme workflow)
none() { :; }
all() { for one in "${edits[@]}"; do "$one"; done; }
