// A tool that the runtime loads (HSA_TOOLS_LIB) and that has it intercept queues itself: in place of one of INTERCEPT_ONE_IN
// queues (1: of all), hsa_queue_create makes one of the runtime's intercept queues, which hands packets to this tool at the
// doorbell. The tool counts those and passes them on to the hardware's queue, which no function of the API names.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <hsa/hsa.h>
#define AMD_INTERNAL_BUILD // its includes are then of its own folder, as Debian has them
#include <hsa/hsa_api_trace.h>

namespace {

decltype(hsa_queue_create)* create;
const AmdExtTable* extensions;
unsigned long one_in = 1;
std::atomic<unsigned long> queues{0}, intercepted{0}, packets{0};

void pass_on(const void* p, uint64_t count, uint64_t, void*, hsa_amd_queue_intercept_packet_writer writer)
{
	packets += count;
	writer(p, count);
}

hsa_status_t create_intercepted(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data,
				uint32_t private_bytes, uint32_t group_bytes, hsa_queue_t** queue)
{
	if (queues++ % one_in)
		return create(agent, size, type, callback, data, private_bytes, group_bytes, queue);
	hsa_status_t status = extensions->hsa_amd_queue_intercept_create_fn(agent, size, type, callback, data, private_bytes, group_bytes, queue);
	if (status == HSA_STATUS_SUCCESS)
		status = extensions->hsa_amd_queue_intercept_register_fn(*queue, pass_on, nullptr);
	intercepted += status == HSA_STATUS_SUCCESS;
	return status;
}

} // namespace

extern "C" bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*)
{
	if (const char* text = getenv("INTERCEPT_ONE_IN"))
		one_in = strtoul(text, nullptr, 10);
	create = table->core_->hsa_queue_create_fn;
	extensions = table->amd_ext_;
	table->core_->hsa_queue_create_fn = create_intercepted;
	return true;
}

extern "C" void OnUnload()
{
	printf("intercepted %lu queues, %lu packets\n", intercepted.load(), packets.load());
	fflush(stdout);
}
