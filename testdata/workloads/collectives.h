// What rcclcalls and collectives.so, which calls RCCL for it, share.
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

// The module's functions, which the program looks up.
extern "C" {
void collectives_step(Rank* rank);
void collectives_finish(Rank* rank);
unsigned long collectives_calls(); // that RCCL has had
}
