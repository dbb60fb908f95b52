package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// format is that of /metrics.
const format = "application/openmetrics-text; version=1.0.0; charset=utf-8"

type scrape struct {
	Time   float64
	Labels map[string]string
	Body   *string
}

func (s scrape) time() time.Time {
	return time.UnixMilli(s.milliseconds())
}

func (s scrape) milliseconds() int64 {
	return int64(s.Time * 1000)
}

// samples parses the body as Prometheus does, and fails where Prometheus would.
func (s scrape) samples(take func(labels.Labels, float64)) error {
	text, err := textparse.New([]byte(*s.Body), format, "", false, false, false, labels.NewSymbolTable())
	if err != nil {
		return err
	}
	for {
		entry, err := text.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w in\n%s", err, *s.Body)
		case entry == textparse.EntrySeries:
			_, _, sample := text.Series()
			var own labels.Labels
			text.Labels(&own)
			take(s.labels(own), sample)
		}
	}
}

// labels adds those of the target.
func (s scrape) labels(own labels.Labels) labels.Labels {
	builder := labels.NewBuilder(own)
	for name, value := range s.Labels {
		builder.Set(name, value)
	}
	return builder.Labels()
}

type series struct {
	labels  labels.Labels
	target  string
	samples []chunks.Sample
	last    int64
	stale   bool
}

// database holds series in memory.
type database struct {
	series map[string]*series
}

// store adds what Prometheus' scrape loop would: the samples, `up`, and for series that the target no longer has the
// mark that they are stale.
func (d *database) store(scrape scrape) error {
	now, up := scrape.milliseconds(), 0.0
	if scrape.Body != nil {
		up = 1
		if err := scrape.samples(func(labels labels.Labels, value float64) { d.add(scrape, labels, value) }); err != nil {
			return err
		}
	}
	d.add(scrape, scrape.labels(labels.FromStrings(labels.MetricName, "up")), up)
	for _, series := range d.series {
		if series.target == scrape.target() && series.last < now && !series.stale {
			series.stale = true
			series.samples = append(series.samples, sample{now, math.Float64frombits(value.StaleNaN)})
		}
	}
	return nil
}

func (s scrape) target() string {
	return labels.FromMap(s.Labels).String()
}

func (d *database) add(scrape scrape, labels labels.Labels, value float64) {
	key := labels.String()
	if d.series[key] == nil {
		d.series[key] = &series{labels: labels, target: scrape.target()}
	}
	series, now := d.series[key], scrape.milliseconds()
	series.samples = append(series.samples, sample{now, value})
	series.last, series.stale = now, false
}

// Querier returns the database itself: the engine takes of a series what it needs.
func (d *database) Querier(int64, int64) (storage.Querier, error) {
	return d, nil
}

// Select returns the series with these labels.
func (d *database) Select(
	_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
) storage.SeriesSet {
	var found []storage.Series
	for _, series := range d.series {
		matches := true
		for _, matcher := range matchers {
			matches = matches && matcher.Matches(series.labels.Get(matcher.Name))
		}
		if matches {
			found = append(found, storage.NewListSeries(series.labels, series.samples))
		}
	}
	return &set{series: found}
}

// LabelValues is not asked for by the engine.
func (d *database) LabelValues(
	context.Context, string, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames is not asked for by the engine.
func (d *database) LabelNames(
	context.Context, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Close keeps the series for the next query.
func (d *database) Close() error {
	return nil
}

// set iterates over series.
type set struct {
	series []storage.Series
	next   int
}

func (s *set) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

func (s *set) At() storage.Series {
	return s.series[s.next-1]
}

func (s *set) Err() error {
	return nil
}

func (s *set) Warnings() annotations.Annotations {
	return nil
}

type sample struct {
	time  int64
	value float64
}

func (s sample) T() int64                      { return s.time }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
