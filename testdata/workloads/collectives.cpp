// The part of rcclcalls that is linked with RCCL, as PyTorch's libraries are. Each call is logged.
#include "collectives.h"

#include <dlfcn.h>

namespace {

void end(Rank& r)
{
	MUST(LOGGED(ncclCommDestroy, r.comm));
	r.comm = nullptr;
}

void ask(Rank& r)
{
	static const auto by_pointer = reinterpret_cast<decltype(ncclGetVersion)*>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
	int rank = -1, ranks = -1, version = 0;
	ncclResult_t error;
	MUST(LOGGED(ncclCommUserRank, r.comm, &rank));
	MUST_BE(r.rank, rank);
	MUST(LOGGED(ncclCommCount, r.comm, &ranks));
	MUST_BE(r.ranks, ranks);
	MUST(LOGGED(ncclCommGetAsyncError, r.comm, &error));
	if (by_pointer)
		MUST(LOGGED_AS(kByPointer, by_pointer, ncclGetVersion, &version));
}

void reduce(Rank& r, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
	const void* from = r.from;
	MUST(LOGGED(ncclAllReduce, from, r.to, count, type, op, r.comm, r.stream));
	MUST(LOGGED(ncclReduce, from, r.to, count + 1, type, op, int(count) % r.ranks, r.comm, r.stream));
	MUST(LOGGED(ncclReduceScatter, from, r.to, count + 2, type, op, r.comm, r.stream));
	MUST_BE(ncclInvalidArgument, LOGGED(ncclAllReduce, from, r.to, count, ncclNumTypes, op, r.comm, r.stream));
	(void)LOGGED(ncclGetErrorString, ncclInvalidArgument);
}

void exchange(Rank& r, size_t count, ncclDataType_t type)
{
	const void* from = r.from;
	const size_t counts[2] = {count, 1}, offsets[2] = {0, count};
	const size_t *c = counts, *o = offsets;
	MUST(LOGGED_PLAIN(ncclGroupStart));
	MUST(LOGGED(ncclSend, from, count, type, (r.rank + 1) % r.ranks, r.comm, r.stream));
	MUST(LOGGED(ncclRecv, r.to, count, type, (r.rank + r.ranks - 1) % r.ranks, r.comm, r.stream));
	MUST(LOGGED_PLAIN(ncclGroupEnd));
	MUST(LOGGED(ncclBroadcast, from, r.to, count, type, 0, r.comm, r.stream));
	MUST(LOGGED(ncclAllGather, from, r.to, count, type, r.comm, r.stream));
	MUST(LOGGED(ncclAllToAllv, from, c, o, r.to, c, o, type, r.comm, r.stream));
}

} // namespace

void collectives_step(Rank* rank)
{
	static constexpr ncclDataType_t types[] = {ncclInt8, ncclFloat16, ncclFloat32, ncclBfloat16};
	static constexpr ncclRedOp_t ops[] = {ncclSum, ncclMax, ncclAvg};
	Rank& r = *rank;
	uint64_t i = r.steps++;
	if (!r.comm) {
		ncclUniqueId id;
		MUST(LOGGED(ncclGetUniqueId, &id));
		begin(r, id);
	}
	reduce(r, 1024 + i % 1000, types[i % 4], ops[i % 3]);
	exchange(r, 64 + i % 100, types[i / 4 % 4]);
	if (i % 4 == 0)
		ask(r);
	if (i % 16 == 15)
		end(r);
}

void collectives_finish(Rank* rank)
{
	if (rank->comm)
		end(*rank);
}

unsigned long collectives_calls()
{
	return rtl_rccl_calls();
}
