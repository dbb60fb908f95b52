// Alerts evaluates the alerts of a PrometheusRule on scrapes, with Prometheus' own parsers and PromQL engine.
//
//	alerts RULES SCRAPES
//
// RULES is the manifest. SCRAPES has a line of JSON for each scrape: `time` in seconds, the `labels` that
// Prometheus adds, and the `body` of the answer, or none where the target did not answer. Prints the name of each
// alert that fires, in the order in which they begin to, with the second of that.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

// interval is how often Prometheus evaluates rules, unless it is configured otherwise.
const interval = time.Minute

// lookback is for how long Prometheus takes a sample for the present value, unless it is configured otherwise.
const lookback = 5 * time.Minute

type manifest struct {
	Spec struct {
		Groups []struct {
			Rules []rule
		}
	}
}

type rule struct {
	Alert string
	Expr  string
	For   string
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rulesPath, scrapesPath string) error {
	alerts, err := readAlerts(rulesPath)
	if err != nil {
		return err
	}
	scrapes, err := readScrapes(scrapesPath)
	if err != nil {
		return err
	}
	database := &database{series: map[string]*series{}}
	for _, scrape := range scrapes {
		if err := database.store(scrape); err != nil {
			return err
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:    10_000_000,
		Timeout:       time.Minute,
		LookbackDelta: lookback,
	})
	begin, end := scrapes[0].time(), scrapes[len(scrapes)-1].time()
	for now := begin; !now.After(end); now = now.Add(interval) {
		for _, alert := range alerts {
			fires, err := alert.evaluate(engine, database, now)
			if err != nil {
				return fmt.Errorf("%s: %w", alert.name, err)
			}
			if fires && !alert.fired {
				alert.fired = true
				fmt.Printf("%s %.0f\n", alert.name, now.Sub(begin).Seconds())
			}
		}
	}
	return nil
}

// alert is a rule, and since when its expression has had each result.
type alert struct {
	name       string
	expression string
	hold       time.Duration
	since      map[string]time.Time
	fired      bool
}

func readAlerts(path string) ([]*alert, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var manifest manifest
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	var alerts []*alert
	for _, group := range manifest.Spec.Groups {
		for _, rule := range group.Rules {
			if _, err := parser.ParseExpr(rule.Expr); err != nil {
				return nil, fmt.Errorf("%s: %w", rule.Alert, err)
			}
			alert := &alert{name: rule.Alert, expression: rule.Expr, since: map[string]time.Time{}}
			if rule.For != "" {
				if alert.hold, err = time.ParseDuration(rule.For); err != nil {
					return nil, err
				}
			}
			alerts = append(alerts, alert)
		}
	}
	if len(alerts) == 0 {
		return nil, fmt.Errorf("%s has no alerts", path)
	}
	return alerts, nil
}

// evaluate says whether the alert fires: the expression has had a result with the same labels for as long as the
// rule says, at every evaluation.
func (a *alert) evaluate(engine *promql.Engine, database *database, now time.Time) (bool, error) {
	query, err := engine.NewInstantQuery(context.Background(), database, nil, a.expression, now)
	if err != nil {
		return false, err
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		return false, err
	}
	since, fires := map[string]time.Time{}, false
	for _, sample := range vector {
		labels := sample.Metric.String()
		begin, known := a.since[labels]
		if !known {
			begin = now
		}
		since[labels] = begin
		fires = fires || now.Sub(begin) >= a.hold
	}
	a.since = since
	return fires, nil
}

func readScrapes(path string) ([]scrape, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var scrapes []scrape
	decoder := json.NewDecoder(file)
	for {
		var next scrape
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF) && len(scrapes) == 0:
			return nil, fmt.Errorf("%s has no scrapes", path)
		case errors.Is(err, io.EOF):
			return scrapes, nil
		case err != nil:
			return nil, err
		}
		scrapes = append(scrapes, next)
	}
}
