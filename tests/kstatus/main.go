// Command kstatus reads objects, one JSON document after the other, and writes for each a line with
// what Helm, Flux and other users of kstatus take its status for.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	objects := bufio.NewReader(os.Stdin)
	for {
		line, err := objects.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		// Reads numbers as kstatus expects them, as int64.
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(line, object); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", result.Status, result.Message)
	}
}
