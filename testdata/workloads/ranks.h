// What ranks.cpp shares with its ways of submitting kernels.
#pragma once
#include <cstdint>

enum What { kAllReduce, kCustomAllReduce, kGemm, kAttention, kTopK, kWhats };

// A kernel. The simulator reads from its grid who takes part in a collective: y ranks, of group z - 1.
struct Launch {
	What what;
	int queue; // 0 or 1
	uint64_t duration_ns;
	unsigned y, z;
	bool last; // of its queue in a batch
	uint64_t id; // for the simulator's log
};

// How a rank submits its kernels: to queues of its own, or by HIP.
class Submitter {
public:
	virtual ~Submitter() = default;
	virtual void begin(int) {} // a batch follows, on so many queues
	virtual void launch(const Launch& l) = 0;
	virtual void ring(int) {} // a queue's launches may run
	virtual void wait() = 0; // for a batch
	virtual void* stream() = 0; // of queue 0
};

// HIP submits; launches on queue 0 may be captured.
class GraphSubmitter : public Submitter {
public:
	virtual void begin_capture() = 0;
	virtual void end_capture() = 0; // graphs have numbers, from 0 on
	virtual void replay(unsigned graph) = 0;
};

// Of ranks_graph.so.
using NewGraphSubmitter = GraphSubmitter*(int device);
