// Preloaded into a workload, which it records by librtl: a thread takes commands from the socket "@rtl-recorder-PID", "start" (all
// kinds) and "stop". What the callbacks get is logged beside the simulator's log, to be compared with the workload's own log.
#include <rtl/rtl.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace {

FILE* log_file;

template <class T> const T& as(const rtl_record_t* r) { return *reinterpret_cast<const T*>(r); }

void dispatch(const rtl_dispatch_record_t& d)
{
	if (d.reason)
		fprintf(log_file, "U %lu %lu %lu %u\n", d.queue, d.index, d.count, d.reason);
	else
		fprintf(log_file, "D %lu %lu %lu %lu %d %s\n", d.queue, d.index, d.start_ns, d.end_ns, d.gpu, d.kernel);
}

void copy(const rtl_copy_record_t& c)
{
	fprintf(log_file, "copy %u %d %d %lu %u %lu %lu %lu\n", c.tid, c.from_gpu, c.to_gpu, c.bytes, c.reason, c.submit_ns, c.start_ns, c.end_ns);
}

void call(const rtl_call_record_t& c)
{
	fprintf(log_file, "call %u %s %u %lu %lu %lu %u", c.record.kind, c.function, c.tid, c.start_ns, c.end_ns, c.result, c.out_argument);
	for (uint64_t word : c.arguments)
		fprintf(log_file, " %lu", word);
	for (uint32_t i = 0; i < c.stack_words; i++)
		fprintf(log_file, " %lu", c.stack[i]);
	fprintf(log_file, "\n");
}

void allocation(const rtl_allocation_record_t& a)
{
	fprintf(log_file, "allocation %u %u %d %lu %lu %u %lu %lu\n", a.tid, a.operation, a.gpu, a.address, a.size_bytes, a.status, a.start_ns, a.end_ns);
}

void scratch(const rtl_scratch_record_t& s)
{
	fprintf(log_file, "scratch %u %u %lu %lu %lu %lu %lu\n", s.tid, s.operation, s.queue, s.size_bytes, s.waves, s.dispatch, s.time_ns);
}

void marker(const rtl_marker_record_t& m)
{
	fprintf(log_file, "marker %u %u %lu %lu %u %s\n", m.tid, m.operation, m.range, m.time_ns, m.text_cut, m.text);
}

void end(const rtl_session_end_record_t& e)
{
	fprintf(log_file, "E %u %lu %lu %lu\n", e.why, e.lost, e.start_ns, e.end_ns);
}

void write(const rtl_record_t* r, void*)
{
	switch (r->kind) {
	case RTL_RECORD_DISPATCH: return dispatch(as<rtl_dispatch_record_t>(r));
	case RTL_RECORD_MEMORY_COPY: return copy(as<rtl_copy_record_t>(r));
	case RTL_RECORD_MEMORY_ALLOCATION: return allocation(as<rtl_allocation_record_t>(r));
	case RTL_RECORD_SCRATCH_MEMORY: return scratch(as<rtl_scratch_record_t>(r));
	case RTL_RECORD_MARKER: return marker(as<rtl_marker_record_t>(r));
	case RTL_RECORD_LOST: fprintf(log_file, "L %lu\n", as<rtl_lost_record_t>(r).count); return;
	case RTL_RECORD_SESSION_END: return end(as<rtl_session_end_record_t>(r));
	default: return call(as<rtl_call_record_t>(r));
	}
}

std::string answer(int r)
{
	char why[256] = "";

	if (r < 0)
		rtl_error_text(why, sizeof why);
	return std::to_string(r) + " " + why + "\n";
}

std::string start()
{
	rtl_options_t o = {};
	o.size = sizeof o;
	o.kinds = RTL_ALL_KINDS;
	o.policy = RTL_BUFFER_LOSSLESS;
	o.drain_timeout_ms = 8000; // on a busy machine
	for (uint32_t kind = 0; kind < RTL_RECORD_KINDS; kind++)
		if (RTL_ALL_KINDS & RTL_BIT(kind) || kind == RTL_RECORD_LOST || kind == RTL_RECORD_SESSION_END)
			rtl_set_callback(kind, write, nullptr, nullptr);
	for (;;) {
		fprintf(log_file, "S\n");
		int r = rtl_start(&o);
		if (r)
			fprintf(log_file, "F\n"); // there was none
		if (r != -ETIMEDOUT) // on a busy machine: it may be called again
			return answer(r);
	}
}

// The log is complete when this returns.
std::string stop()
{
	int r = rtl_stop();
	fflush(log_file);
	return answer(r);
}

[[noreturn]] void fail(const char* what)
{
	perror(what);
	abort();
}

void serve(int listening)
{
	for (;;) {
		int connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
		char command[16] = "";
		if (connection < 0 || read(connection, command, sizeof command - 1) < 0)
			fail("recorder");
		std::string said = strncmp(command, "start", 5) ? stop() : start();
		if (::write(connection, said.data(), said.size()) < 0)
			fail("recorder");
		close(connection);
	}
}

__attribute__((constructor)) void load()
{
	const char* beside = getenv("SOFTGPU_LOG");
	if (!beside)
		return;
	std::string path = beside;
	path = path.substr(0, path.rfind('/')) + "/recorder.log";
	sockaddr_un name = {};
	name.sun_family = AF_UNIX;
	int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "rtl-recorder-%d", getpid());
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&name), socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(length))) ||
	    listen(listening, 4))
		fail("recorder");
	log_file = fopen(path.c_str(), "we");
	if (!log_file)
		fail(path.c_str());
	std::thread(serve, listening).detach();
}

} // namespace
