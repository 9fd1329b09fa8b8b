// librccl.so.1 in RCCL's place: it has some of its exports, which count their calls and check their arguments.
#include "rccl.h"

#include <time.h>
#include <atomic>

struct ncclComm {
	unsigned long magic;
	int ranks, rank;
};

namespace {

constexpr unsigned long kMagic = 0x4c434352;
std::atomic<unsigned long> calls{0};
std::atomic<unsigned> ids{0};
thread_local void (*work_in_all_reduce)(void*);
thread_local void* work_of;

ncclResult_t called(bool good = true)
{
	calls.fetch_add(1, std::memory_order_relaxed);
	return good ? ncclSuccess : ncclInvalidArgument;
}

// take_time takes half a microsecond, before and after a submit. The payload converts the stamps of a call and of its kernel by two
// readings of the clock, which on some machines err by 20 ns: a call that returns sooner may not contain its submit.
void take_time()
{
	timespec from, now;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 500);
}

bool is_good(const ncclComm* comm) { return comm && comm->magic == kMagic; }

bool is_good(const ncclComm* comm, hipStream_t stream, ncclDataType_t type)
{
	return is_good(comm) && stream && unsigned(type) < ncclNumTypes;
}

// All 128 bytes are as ncclGetUniqueId has made them.
bool is_good(const ncclUniqueId& id)
{
	for (size_t i = 1; i < sizeof id.internal; i++)
		if (id.internal[i] != char(id.internal[0] + char(i)))
			return false;
	return true;
}

} // namespace

extern "C" {

unsigned long rtl_rccl_calls() { return calls; }

void rtl_rccl_in_all_reduce(void (*work)(void*), void* of)
{
	work_in_all_reduce = work;
	work_of = of;
}

ncclResult_t ncclGetVersion(int* version)
{
	*version = 21304;
	return called();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id)
{
	unsigned first = ids.fetch_add(1);
	for (size_t i = 0; i < sizeof id->internal; i++)
		id->internal[i] = char(first + i);
	return called();
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank)
{
	if (rank < 0 || rank >= ranks || !is_good(id))
		return called(false);
	*comm = new ncclComm{kMagic, ranks, rank};
	return called();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	bool good = is_good(comm);
	if (good)
		delete comm;
	return called(good);
}

const char* ncclGetErrorString(ncclResult_t result)
{
	called();
	return result == ncclSuccess ? "no error" : "invalid argument";
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error)
{
	*error = ncclSuccess;
	return called(is_good(comm));
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count)
{
	*count = comm->ranks;
	return called(is_good(comm));
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank)
{
	*rank = comm->rank;
	return called(is_good(comm));
}

ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t type, ncclRedOp_t, int root, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type) && root < comm->ranks);
}

ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t type, int root, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type) && root < comm->ranks);
}

ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm, hipStream_t stream)
{
	if (auto work = work_in_all_reduce) {
		work_in_all_reduce = nullptr;
		take_time();
		work(work_of);
		take_time();
	}
	return called(is_good(comm, stream, type));
}

ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type));
}

ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t type, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type));
}

ncclResult_t ncclSend(const void*, size_t, ncclDataType_t type, int peer, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type) && peer < comm->ranks);
}

ncclResult_t ncclRecv(void*, size_t, ncclDataType_t type, int peer, ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type) && peer < comm->ranks);
}

ncclResult_t ncclAllToAllv(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, ncclDataType_t type,
			   ncclComm_t comm, hipStream_t stream)
{
	return called(is_good(comm, stream, type));
}

ncclResult_t ncclGroupStart() { return called(); }
ncclResult_t ncclGroupEnd() { return called(); }
}
