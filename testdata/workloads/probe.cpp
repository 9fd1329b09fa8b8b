// Small stories of an application and its GPU, one per mode:
//   fork, exec, closefrom   what it does to itself while a queue exists
//   workers                 processes that each use the GPU, under a parent that does not
//   stray                   a kernel whose reserved2 holds somebody else's words
//   times                   prints what the runtime says about each kernel's times
// Each ends with 0 and the counts of what it dispatched.
#include "hsa_device.h"

#include <fcntl.h>
#include <map>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void say(const char* what)
{
	printf("%s\n", what);
	fflush(stdout);
}

void ready()
{
	printf("ready pid=%d\n", getpid());
	fflush(stdout);
}

// A queue on the first GPU, and one kernel at a time on it.
class Application {
public:
	Application(const CodeObject& code, uint64_t thread) : hsa_(code, 1), queue_(create_queue(hsa_.gpus[0], 64)), id_(thread << 40) {}
	~Application() { HSA_CHECK(hsa_queue_destroy(queue_)); }

	void run_kernel(uint64_t ns) { HSA_CHECK(hsa_signal_destroy(completed(tag(++id_, ns)))); }
	void run_stray_kernel(uint64_t words) { HSA_CHECK(hsa_signal_destroy(completed(words, 0))); }

	// The runtime asks the driver for the clocks now and then.
	hsa_amd_profiling_dispatch_time_t time_kernel(uint64_t ns)
	{
		hsa_amd_profiling_dispatch_time_t time;
		hsa_signal_t s = completed(tag(++id_, ns));
		HSA_CHECK(hsa_amd_profiling_get_dispatch_time(hsa_.gpus[0].agent, s, &time));
		HSA_CHECK(hsa_signal_destroy(s));
		return time;
	}

	uint64_t last_id() const { return id_; }

private:
	hsa_signal_t completed(uint64_t reserved2, uint16_t reserved0 = kTag)
	{
		hsa_signal_t s = create_signal(1);
		uint64_t i = hsa_queue_add_write_index_screlease(queue_, 1);
		publish_kernel(wait_slot(queue_, i), hsa_.gpus[0].kernels[0], reserved2, s, true, 64, reserved0);
		hsa_signal_store_screlease(queue_->doorbell_signal, hsa_signal_value_t(i));
		wait_signal(s);
		return s;
	}

	Hsa hsa_;
	hsa_queue_t* queue_;
	uint64_t id_;
};

void expect_success(pid_t child)
{
	int status = 0;
	if (waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "child: status %#x\n", unsigned(status));
		abort();
	}
}

int fork_mode(const CodeObject& code)
{
	Application a(code, 1);
	ready();
	a.run_kernel(1000);
	pid_t child = fork();
	if (child == 0) // exit() runs the parent's exit handlers in the child
		exit(open("/dev/kfd", O_RDWR | O_CLOEXEC) >= 0 ? 0 : 1);
	expect_success(child);
	a.run_kernel(1000);
	say("{\"threads\":[{\"id\":1,\"count\":2}]}");
	return 0;
}

int exec_mode(const CodeObject& code)
{
	Application a(code, 1);
	ready();
	a.run_kernel(1000);
	execl("/proc/self/exe", "probe", "after-exec", nullptr);
	return 1;
}

int after_exec_mode(const CodeObject&)
{
	say("after exec");
	getchar();
	say("{\"threads\":[]}");
	return 0;
}

int closefrom_mode(const CodeObject& code)
{
	Application a(code, 1);
	ready();
	a.run_kernel(1000);
	closefrom(3);
	a.run_kernel(1000);
	say("{\"threads\":[{\"id\":1,\"count\":2}]}");
	_exit(0); // the runtime's descriptors are gone: nothing is left to be taken down
}

int workers_mode(const CodeObject& code)
{
	pid_t children[2];
	ready();
	for (uint64_t w = 0; w < 2; w++)
		if ((children[w] = fork()) == 0) {
			Application(code, w + 1).run_kernel(1000);
			exit(0);
		}
	for (pid_t child : children)
		expect_success(child);
	say("{\"threads\":[{\"id\":1,\"count\":1},{\"id\":2,\"count\":1}]}");
	return 0;
}

int stray_mode(const CodeObject& code)
{
	Application a(code, 1);
	ready();
	a.run_kernel(1000);
	a.run_stray_kernel(tag(uint64_t(5) << 40 | 7, 1000));
	say("{\"threads\":[{\"id\":1,\"count\":1}]}");
	return 0;
}

int times_mode(const CodeObject& code)
{
	constexpr unsigned kKernels = 50;
	Application a(code, 1);
	ready();
	for (unsigned i = 0; i < kKernels; i++) {
		hsa_amd_profiling_dispatch_time_t t = a.time_kernel(1000 * i);
		printf("%lu %lu %lu\n", a.last_id(), t.start, t.end);
	}
	printf("{\"threads\":[{\"id\":1,\"count\":%u}]}\n", kKernels);
	return 0;
}

} // namespace

int main(int argc, char** argv)
{
	const std::map<std::string, int (*)(const CodeObject&)> modes = {
		{"fork", fork_mode}, {"exec", exec_mode}, {"after-exec", after_exec_mode},
		{"closefrom", closefrom_mode}, {"workers", workers_mode}, {"stray", stray_mode},
		{"times", times_mode},
	};
	auto mode = argc == 2 ? modes.find(argv[1]) : modes.end();
	if (mode == modes.end()) {
		fprintf(stderr, "usage: probe MODE\n");
		return 2;
	}
	char path[4096] = "";
	if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
		return 1;
	std::string program = path;
	return mode->second(CodeObject(program.substr(0, program.rfind('/')) + "/kernels.hsaco"));
}
