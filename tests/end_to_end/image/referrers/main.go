// A registry in memory that lists what refers to an image.
package main

import (
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving on port %d", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, registry.New(registry.WithReferrersSupport(true))))
}
