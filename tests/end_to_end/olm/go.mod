module opctl.example.com/olm

go 1.26.0

require github.com/operator-framework/api v0.45.0
