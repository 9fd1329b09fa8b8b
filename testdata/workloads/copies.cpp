// Raw HSA copies from many threads, in the ways that real programs make them. Each
// call is logged with what was asked for, to be compared with a trace and with
// what the GPUs did.
#include "copier.h"
#include "held.h"
#include "http.h"
#include "options.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

struct Settings {
	long threads = 0, seconds = 0, pace_us = 0, port = 0;
	std::string log, code_object;
} settings;

class End {
public:
	void now()
	{
		std::lock_guard<std::mutex> hold(mutex_);
		come_ = true;
		changed_.notify_all();
	}
	void wait(double seconds)
	{
		std::unique_lock<std::mutex> hold(mutex_);
		changed_.wait_for(hold, std::chrono::duration<double>(seconds), [this] { return come_; });
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	bool come_ = false;
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = default_code_object(argv[0]);
	settings.threads = Copier::kinds();
	o.number("threads", &settings.threads, "threads; their kinds follow each other, the default is one of each");
	o.number("pace", &settings.pace_us, "pause after each step, in us");
	o.number("seconds", &settings.seconds, "duration; 0: until /quit");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("log", &settings.log, "where the calls go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

void write_log(const std::vector<std::unique_ptr<Copier>>& copiers)
{
	if (settings.log.empty())
		return;
	FILE* f = fopen(settings.log.c_str(), "w");
	if (!f) {
		perror(settings.log.c_str());
		abort();
	}
	for (auto& c : copiers)
		c->write(f);
	fclose(f);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	hold_if_asked();
	CodeObject code(settings.code_object);
	Hsa hsa(code, 0);
	Memory memory(hsa.gpus);
	std::vector<std::unique_ptr<Copier>> copiers;
	for (long i = 0; i < settings.threads; i++)
		copiers.push_back(std::make_unique<Copier>(memory, unsigned(i), settings.pace_us));
	End end;
	HttpServer http(settings.port, [&](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(Copier::progress.load()) + "\n";
		if (path != "/quit")
			return "";
		end.now();
		return "bye\n";
	});
	printf("ready pid=%d port=%d\n", getpid(), http.port());
	fflush(stdout);
	for (auto& c : copiers)
		c->start();
	end.wait(settings.seconds ? double(settings.seconds) : 1e9);
	Copier::stop = true;
	for (auto& c : copiers)
		c->join();
	write_log(copiers);
	printf("{\"threads\":[");
	const char* comma = "";
	for (auto& c : copiers)
		if (c->kernels()) {
			printf("%s{\"id\":%u,\"count\":%lu}", comma, c->id(), c->kernels());
			comma = ",";
		}
	printf("]}\n");
	return 0;
}
