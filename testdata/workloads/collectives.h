// What programs that call RCCL share.
#pragma once
#include "call_log.h"
#include "rccl.h"

#define FUNCTIONS(F)                                                                                             \
	F(ncclGetVersion) F(ncclGetUniqueId) F(ncclCommInitRank) F(ncclCommDestroy) F(ncclGetErrorString)        \
	F(ncclCommGetAsyncError) F(ncclCommCount) F(ncclCommUserRank) F(ncclReduce) F(ncclBroadcast)             \
	F(ncclAllReduce) F(ncclReduceScatter) F(ncclAllGather) F(ncclSend) F(ncclRecv) F(ncclAllToAllv)          \
	F(ncclGroupStart) F(ncclGroupEnd)

#define NUMBER(function) k_##function,
#define NAME(function) #function,
enum Function : uint16_t { FUNCTIONS(NUMBER) kFunctions };

// One of the communicator's ranks: a thread, here.
struct Rank {
	CallLog* log;
	int rank, ranks;
	hipStream_t stream;
	void *from, *to;
	ncclComm_t comm = nullptr;
	uint64_t steps = 0;
};

// The arguments are evaluated twice.
#define LOGGED_AS(flags, callee, function, ...) r.log->call(k_##function, flags, [&] { return callee(__VA_ARGS__); }, __VA_ARGS__)
#define LOGGED(function, ...) LOGGED_AS(0, function, function, __VA_ARGS__)
#define LOGGED_PLAIN(function) r.log->call(k_##function, 0, [] { return function(); }) // without arguments

#define MUST_BE(expected, call)                                                                                    \
	do {                                                                                                       \
		auto status_ = (call);                                                                             \
		if (status_ != (expected)) {                                                                       \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, int(status_));               \
			abort();                                                                                   \
		}                                                                                                  \
	} while (0)
#define MUST(call) MUST_BE(ncclSuccess, call)

// The 128 bytes of the id are words of the stack: a record has the first five of them, behind the six registers.
inline void begin(Rank& r, const ncclUniqueId& id)
{
	uint64_t w[5];
	Unused none;
	memcpy(w, &id, sizeof w);
	MUST(r.log->call(k_ncclCommInitRank, 0, [&] { return ncclCommInitRank(&r.comm, r.ranks, id, r.rank); },
			 &r.comm, r.ranks, r.rank, none, none, none, w[0], w[1], w[2], w[3], w[4]));
}

// The module's functions, which the program looks up.
extern "C" {
void collectives_step(Rank* rank);
void collectives_finish(Rank* rank);
unsigned long collectives_calls(); // that RCCL has had
}
