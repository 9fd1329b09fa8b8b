// A HIP program that records itself by librtl, under load, as its HTTP server is asked to. What its callbacks get
// is logged, to be compared with the simulator's log.
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <rtl/rtl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>

namespace {

struct Settings {
	long threads = 4, pace_us = 200, port = 0, only_shutdown = 0;
	std::string log, code_object;
} settings;

std::atomic<bool> stop_workers{false};
std::atomic<uint64_t> launched{0};

class End {
public:
	void now()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		come_ = true;
		changed_.notify_all();
	}
	void wait()
	{
		std::unique_lock<std::mutex> hold(mutex_);
		changed_.wait(hold, [this] { return come_; });
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool come_ = false;
};

class Worker {
public:
	uint64_t count = 0;
	const unsigned id;

	Worker(Device& device, unsigned id) : id(id), device_(device) {}

	void begin()
	{
		thread_ = std::thread([this] {
			HIP_CHECK(hipSetDevice(device_.ordinal));
			HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
			while (!stop_workers)
				step();
			HIP_CHECK(hipStreamSynchronize(stream_));
			HIP_CHECK(hipStreamDestroy(stream_));
		});
	}
	void join() { thread_.join(); }

private:
	static constexpr int kBurst = 8;
	Device& device_;
	hipStream_t stream_ = nullptr;
	Arguments arguments_;
	std::thread thread_;

	void step()
	{
		for (int i = 0; i < kBurst; i++) {
			arguments_.id = kernarg_id(id, ++count);
			HIP_CHECK(hipModuleLaunchKernel(device_.kernels[count % device_.kernels.size()], 8, 1, 1, 256, 1, 1, 0, stream_, arguments_.pointers, nullptr));
			launched++;
		}
		HIP_CHECK(hipStreamSynchronize(stream_));
		usleep(useconds_t(settings.pace_us));
	}
};

// ---- callbacks

FILE* log_file;
std::atomic<bool> closed{false}; // rtl_shutdown() has returned
std::atomic<uint64_t> late{0}, logged{0}, batched{0}, wrong{0}, released{0}, thrown{0};
std::mutex log_mutex; // of rounds of the storm, in which sessions follow each other

struct AtExit {
	~AtExit()
	{
		if (log_file)
			fclose(log_file);
		closed = true;
		log_file = nullptr;
	}
} at_exit; // made before the first rtl_start(): destroyed when no callback runs any more

void look()
{
	if (closed) {
		late++;
		fprintf(stderr, "a callback runs after the end\n");
		abort();
	}
}

void write(const rtl_record_t* r)
{
	std::lock_guard<std::mutex> hold(log_mutex);
	if (r->kind == RTL_RECORD_DISPATCH) {
		auto* d = reinterpret_cast<const rtl_dispatch_record_t*>(r);
		logged += d->count;
		if (d->reason)
			fprintf(log_file, "U %lu %lu %lu %u\n", d->queue, d->index, d->count, d->reason);
		else
			fprintf(log_file, "D %lu %lu %lu %lu %d %s\n", d->queue, d->index, d->start_ns, d->end_ns, d->gpu, d->kernel);
	} else if (r->kind == RTL_RECORD_LOST) {
		fprintf(log_file, "L %lu\n", reinterpret_cast<const rtl_lost_record_t*>(r)->count);
	} else if (r->kind == RTL_RECORD_SESSION_END) {
		auto* e = reinterpret_cast<const rtl_session_end_record_t*>(r);
		fprintf(log_file, "E %u %lu\n", e->why, e->lost);
	}
}

void log_record(const rtl_record_t* r, void*)
{
	look();
	write(r);
}

void count_batch(rtl_buffer_t, const rtl_record_t* r, size_t count, uint64_t dropped, void*)
{
	look();
	for (; count; count--, r = rtl_next(r))
		if (r->kind == RTL_RECORD_DISPATCH)
			batched += reinterpret_cast<const rtl_dispatch_record_t*>(r)->count;
	wrong += dropped; // the buffer is lossless
}

// The user data of two callbacks that replace each other.
struct Tagged {
	static constexpr uint64_t kAlive = 0x1122334455667788;
	uint64_t alive = kAlive;
	int who;
	explicit Tagged(int who) : who(who) {}
};

template <int who> void tagged_callback(const rtl_record_t* r, void* user)
{
	auto* t = static_cast<Tagged*>(user);

	look();
	if (t->alive != Tagged::kAlive || t->who != who)
		wrong++;
	write(r);
	if (who == 2) {
		thrown++;
		throw std::runtime_error("contained");
	}
}

void release_tagged(void* user)
{
	auto* t = static_cast<Tagged*>(user);

	if (t->alive != Tagged::kAlive)
		wrong++;
	t->alive = 0;
	released++;
	delete t;
}

// ---- what the server is asked for

std::string answer(int r)
{
	char why[256] = "";

	if (r < 0)
		rtl_error_text(why, sizeof why);
	return std::to_string(r) + " " + why + "\n";
}

void set_log_callbacks()
{
	rtl_set_callback(RTL_RECORD_DISPATCH, log_record, nullptr, nullptr);
	rtl_set_callback(RTL_RECORD_LOST, log_record, nullptr, nullptr);
	rtl_set_callback(RTL_RECORD_SESSION_END, log_record, nullptr, nullptr);
}

int make_buffer()
{
	rtl_buffer_options_t o = {};
	rtl_buffer_t b;

	o.size = sizeof o;
	o.size_bytes = 64 << 10;
	o.policy = RTL_BUFFER_LOSSLESS;
	o.kinds = RTL_BIT(RTL_RECORD_DISPATCH);
	o.callback = count_batch;
	return rtl_buffer_create(&o, &b);
}

std::string start(bool all)
{
	rtl_options_t o = {};
	o.size = sizeof o;
	o.policy = RTL_BUFFER_LOSSLESS;
	o.kinds = all ? RTL_ALL_KINDS : 0;
	closed = false;
	set_log_callbacks();
	fprintf(log_file, "S\n");
	return answer(rtl_start(&o));
}

std::string shut_down()
{
	int r = rtl_shutdown();
	closed = true;
	return answer(r);
}

// Replaces the callback of kernels n times. Now and then it waits for a record, or the load would not meet it.
std::string replace(long n)
{
	uint64_t before = released;

	for (long i = 0; i < n; i++) {
		if (i % 2)
			rtl_set_callback(RTL_RECORD_DISPATCH, tagged_callback<2>, new Tagged(2), release_tagged);
		else
			rtl_set_callback(RTL_RECORD_DISPATCH, tagged_callback<1>, new Tagged(1), release_tagged);
		if (i % 33 == 0) // both of them in turn
			for (uint64_t seen = logged; logged == seen;)
				usleep(50);
	}
	rtl_set_callback(RTL_RECORD_DISPATCH, log_record, nullptr, nullptr);
	rtl_flush(10000);
	return std::to_string(released - before) + "\n";
}

// Threads that start, stop, flush and shut down without order.
std::string storm(long rounds)
{
	std::vector<std::thread> threads;
	std::atomic<long> bad{0}, sessions{0};

	closed = false;
	for (unsigned t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			for (long i = 0; i < rounds; i++) {
				int r = 0;
				switch ((t + unsigned(i)) % 4) {
				case 0: set_log_callbacks(), r = rtl_start(nullptr), sessions += !r, r = r == -EALREADY ? 0 : r; break;
				case 1: r = rtl_flush(10000); break;
				case 2: r = rtl_stop(); break;
				case 3: r = rtl_shutdown(); break;
				}
				if (r)
					bad++, fprintf(stderr, "storm: %s", answer(r).c_str());
			}
		});
	for (auto& t : threads)
		t.join();
	int r = rtl_shutdown();
	closed = true;
	return std::to_string(bad + (r != 0)) + " " + std::to_string(sessions) + "\n";
}

// In a forked child every function refuses.
std::string forked()
{
	pid_t child = fork();

	if (!child)
		_exit(rtl_start(nullptr) == -ECHILD && rtl_stop() == -ECHILD && rtl_shutdown() == -ECHILD && rtl_flush(1) == -ECHILD ? 0 : 1);
	int status = -1;
	waitpid(child, &status, 0);
	return std::to_string(status) + "\n";
}

std::string stats()
{
	rtl_stats_t s = {};
	s.size = sizeof s;
	rtl_get_stats(&s);
	char text[400];
	snprintf(text, sizeof text,
		 "{\"sessions\":%lu,\"active\":%lu,\"exceptions\":%lu,\"lost\":%lu,\"dropped\":%lu,\"unknown\":%lu,"
		 "\"logged\":%lu,\"batched\":%lu,\"wrong\":%lu,\"thrown\":%lu,\"late\":%lu}\n",
		 s.sessions, s.active, s.exceptions, s.lost, s.dropped, s.unknown, logged.load(), batched.load(), wrong.load(), thrown.load(),
		 late.load());
	return text;
}

long number_in(const std::string& path)
{
	size_t at = path.find("n=");
	return at == std::string::npos ? 0 : strtol(path.c_str() + at + 2, nullptr, 10);
}

std::string serve(const std::string& path, End& end)
{
	if (path == "/health")
		return "ok " + std::to_string(launched.load()) + "\n";
	if (path == "/start" || path == "/start/all")
		return start(path != "/start");
	if (path == "/stop")
		return answer(rtl_stop());
	if (path == "/shutdown")
		return shut_down();
	if (path == "/flush")
		return answer(rtl_flush(10000));
	if (path == "/buffer")
		return answer(make_buffer());
	if (path.compare(0, 8, "/replace") == 0)
		return replace(number_in(path));
	if (path.compare(0, 6, "/storm") == 0)
		return storm(number_in(path));
	if (path == "/fork")
		return forked();
	if (path == "/stats")
		return stats();
	if (path != "/quit")
		return "";
	end.now();
	return "bye\n";
}

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	o.number("threads", &settings.threads, "threads, each with a stream");
	o.number("pace", &settings.pace_us, "pause after eight kernels, in us");
	o.number("port", &settings.port, "of the HTTP server; 0: any");
	o.number("only-shutdown", &settings.only_shutdown, "1: end after a shutdown that comes before anything else");
	o.text("log", &settings.log, "where the records go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	log_file = fopen(settings.log.empty() ? "/dev/null" : settings.log.c_str(), "w");
	if (!log_file) {
		perror(settings.log.c_str());
		return 1;
	}
	if (rtl_shutdown() || rtl_stop() || rtl_shutdown()) { // before anything else
		fprintf(stderr, "an early shutdown fails\n");
		return 1;
	}
	if (settings.only_shutdown)
		return 0;
	CodeObject code(settings.code_object);
	Device device(0, code);
	std::vector<std::unique_ptr<Worker>> workers;
	for (long i = 0; i < settings.threads; i++)
		workers.push_back(std::make_unique<Worker>(device, unsigned(i) + 1));
	End end;
	{
		HttpServer http(settings.port, [&](const std::string& path) { return serve(path, end); });
		printf("ready pid=%d port=%d\n", getpid(), http.port());
		fflush(stdout);
		for (auto& w : workers)
			w->begin();
		end.wait();
		stop_workers = true;
		for (auto& w : workers)
			w->join();
	}
	printf("{\"threads\":[");
	for (size_t i = 0; i < workers.size(); i++)
		printf("%s{\"id\":%u,\"count\":%lu}", i ? "," : "", workers[i]->id, workers[i]->count);
	printf("]}\n");
	return 0; // a session that is active ends at exit
}
