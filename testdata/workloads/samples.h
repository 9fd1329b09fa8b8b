// Measurements and their quantiles; the CPU time a run took, of all threads of the process.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <sys/resource.h>
#include <vector>

class Samples {
public:
	void add(double v) { values_.push_back(v); }
	void add(const Samples& other) { values_.insert(values_.end(), other.values_.begin(), other.values_.end()); }

	// "p10":…,"p50":… of what was measured, in ns.
	std::string json()
	{
		char text[256];
		std::sort(values_.begin(), values_.end());
		snprintf(text, sizeof text,
			 "\"samples\":%zu,\"p10_ns\":%.1f,\"p50_ns\":%.1f,\"p90_ns\":%.1f,\"p99_ns\":%.1f,\"p999_ns\":%.1f,\"max_ns\":%.1f",
			 values_.size(), at(.1), at(.5), at(.9), at(.99), at(.999), at(1));
		return text;
	}

private:
	std::vector<double> values_;

	double at(double quantile) const
	{
		return values_.empty() ? 0 : values_[std::min(values_.size() - 1, size_t(double(values_.size()) * quantile))];
	}
};

inline uint64_t cpu_ns()
{
	rusage u;
	getrusage(RUSAGE_SELF, &u);
	return uint64_t(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u + uint64_t(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}
