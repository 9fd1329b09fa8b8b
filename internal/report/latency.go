package report

import "github.com/rtl-attach/rtl-attach/internal/histogram"

// launchToStart returns the percentiles of a histogram; nil if it is empty.
func launchToStart(h *histogram.Histogram) *LaunchToStart {
	if h == nil || h.Count() == 0 {
		return nil
	}
	return &LaunchToStart{
		Dispatches: h.Count(), P50NS: h.Quantile(500), P90NS: h.Quantile(900), P99NS: h.Quantile(990), P999NS: h.Quantile(999),
		MaxNS: h.Max(),
	}
}
