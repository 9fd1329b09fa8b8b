// batches.cpp: records in batches. Calls of HIP and kernels go into a buffer that this program's own thread
// empties; a second buffer has a callback, which throws now and then.
//
//   batches CODE-OBJECT KERNEL COUNT
#include <hip/hip_runtime_api.h>
#include <rtl/rtl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

void check(hipError_t e, const char* what)
{
	if (e == hipSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, hipGetErrorString(e));
	exit(1);
}

// What happened in one batch; strings must be copied.
class Totals {
public:
	void add(const rtl_record_t* r, size_t count, uint64_t dropped)
	{
		for (; count; count--, r = rtl_next(r))
			add(r);
		dropped_ += dropped;
	}

	void print() const
	{
		for (auto& c : calls_)
			printf("%lu calls of %s\n", static_cast<unsigned long>(c.second), c.first.c_str());
		printf("%lu kernels, %lu records dropped\n", static_cast<unsigned long>(kernels_), static_cast<unsigned long>(dropped_));
	}

private:
	std::map<std::string, uint64_t> calls_;
	uint64_t kernels_ = 0, dropped_ = 0;

	void add(const rtl_record_t* r)
	{
		if (r->kind == RTL_RECORD_HIP_RUNTIME_API)
			calls_[reinterpret_cast<const rtl_call_record_t*>(r)->function]++;
		if (r->kind != RTL_RECORD_DISPATCH)
			return;
		auto* d = reinterpret_cast<const rtl_dispatch_record_t*>(r);
		kernels_ += d->count;
		if (d->reason) {
			printf("%lu packets without times: %s\n", static_cast<unsigned long>(d->count), rtl_reason_text(d->reason));
			return;
		}
		printf("kernel gpu %d queue %#lx packet %lu %lu..%lu %s\n", d->gpu, static_cast<unsigned long>(d->queue),
		       static_cast<unsigned long>(d->index), static_cast<unsigned long>(d->start_ns), static_cast<unsigned long>(d->end_ns),
		       d->kernel);
	}
};

// A thread of the application that takes batches until the session's last record has come.
class Reader {
public:
	explicit Reader(rtl_buffer_t buffer) : buffer_(buffer), thread_([this] { run(); }) {}
	void join() { thread_.join(); }
	const Totals& totals() const { return totals_; }

private:
	rtl_buffer_t buffer_;
	Totals totals_;
	bool ended_ = false;
	std::thread thread_;

	void run()
	{
		while (!ended_ && rtl_buffer_read(buffer_, take, this, 100) >= 0)
			;
	}

	static void take(rtl_buffer_t, const rtl_record_t* first, size_t count, uint64_t dropped, void* self)
	{
		auto* reader = static_cast<Reader*>(self);
		const rtl_record_t* r = first;

		reader->totals_.add(first, count, dropped);
		for (size_t i = 0; i < count; i++, r = rtl_next(r))
			reader->ended_ |= r->kind == RTL_RECORD_SESSION_END;
	}
};

void throw_sometimes(rtl_buffer_t, const rtl_record_t*, size_t, uint64_t, void* user)
{
	if (++*static_cast<std::atomic<unsigned>*>(user) % 2)
		throw std::runtime_error("contained, and counted");
}

void launch(const char* code_object, const char* kernel, int count)
{
	hipModule_t module;
	hipFunction_t function;
	hipStream_t stream;
	uint64_t values[8] = {};
	void* arguments[8];

	for (int i = 0; i < 8; i++)
		arguments[i] = &values[i];
	check(hipModuleLoad(&module, code_object), code_object);
	check(hipModuleGetFunction(&function, module, kernel), kernel);
	check(hipStreamCreate(&stream), "hipStreamCreate");
	for (int i = 0; i < count; i++)
		check(hipModuleLaunchKernel(function, 8, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr), kernel);
	check(hipStreamSynchronize(stream), "hipStreamSynchronize");
	check(hipStreamDestroy(stream), "hipStreamDestroy");
	check(hipModuleUnload(module), "hipModuleUnload");
}

rtl_buffer_t make_buffer(uint32_t kinds, rtl_batch_callback_t callback, void* user)
{
	rtl_buffer_options_t o = {};
	rtl_buffer_t buffer;

	o.size = sizeof o;
	o.kinds = kinds;
	o.policy = RTL_BUFFER_LOSSLESS;
	o.callback = callback;
	o.user = user;
	if (rtl_buffer_create(&o, &buffer)) {
		fprintf(stderr, "no buffer\n");
		exit(1);
	}
	return buffer;
}

} // namespace

int main(int argc, char** argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s CODE-OBJECT KERNEL COUNT\n", argv[0]);
		return 2;
	}
	check(hipInit(0), "hipInit");

	std::atomic<unsigned> batches{0};
	rtl_buffer_t own = make_buffer(RTL_BIT(RTL_RECORD_DISPATCH) | RTL_BIT(RTL_RECORD_HIP_RUNTIME_API), nullptr, nullptr);
	make_buffer(RTL_BIT(RTL_RECORD_DISPATCH), throw_sometimes, &batches);
	Reader reader(own);
	if (rtl_start(nullptr)) {
		char why[256];
		rtl_error_text(why, sizeof why);
		fprintf(stderr, "not recorded: %s\n", why);
		rtl_shutdown(); // ends the reader's wait
		reader.join();
		return 1;
	}
	launch(argv[1], argv[2], atoi(argv[3]));
	rtl_stop();
	reader.join(); // it has seen the session's end
	rtl_shutdown();

	rtl_stats_t stats = {};
	stats.size = sizeof stats;
	rtl_get_stats(&stats);
	reader.totals().print();
	printf("%u batches, %lu exceptions\n", batches.load(), static_cast<unsigned long>(stats.exceptions));
	return 0;
}
