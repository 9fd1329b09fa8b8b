// A server's front end, without a GPU: it starts GPU workers, each of which calls
// its GPU 0, and a process that has none. Workers that are killed are replaced.
//
//	frontend [--flag value]... -- PROGRAM args...
#include "http.h"
#include "options.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <csignal>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace {

struct Settings {
	long workers = 8, gpus = 8, port = 0;
	std::string respawn = "on", log, preload;
} settings;

struct Worker {
	long rank;
	pid_t pid;
	int port, output; // 0: not ready yet; what it prints
	std::string line;
};

std::mutex mutex; // of the workers: the main thread changes them, HTTP's reads them
std::map<pid_t, Worker> workers;
std::atomic<uint64_t> questions{0};

// The environment of a worker, as launchers make it.
void prepare(long rank)
{
	setenv("RANK", std::to_string(rank).c_str(), 1);
	setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
	setenv("SOFTGPU_GPUS", std::to_string(settings.gpus).c_str(), 1);
	setenv("ROCR_VISIBLE_DEVICES", std::to_string(rank % settings.gpus).c_str(), 1);
	if (!settings.preload.empty())
		setenv("LD_PRELOAD", settings.preload.c_str(), 1);
	if (!settings.log.empty())
		setenv("SOFTGPU_LOG", (settings.log + "." + std::to_string(getpid())).c_str(), 1);
}

// A child ends with its parent, and has no signal blocked.
pid_t start_child()
{
	pid_t pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		sigset_t none;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, nullptr);
	}
	return pid;
}

void start_worker(long rank, char** command)
{
	int output[2];

	if (pipe2(output, O_CLOEXEC)) {
		perror("pipe");
		exit(1);
	}
	pid_t pid = start_child();
	if (pid == 0) {
		dup2(output[1], STDOUT_FILENO);
		prepare(rank);
		execv(command[0], command);
		perror(command[0]);
		_exit(127);
	}
	close(output[1]);
	std::lock_guard<std::mutex> hold(mutex);
	workers[pid] = {rank, pid, 0, output[0], ""};
}

pid_t start_tokenizer()
{
	pid_t pid = start_child();
	if (pid == 0) {
		prctl(PR_SET_NAME, "tokenizer");
		for (;;)
			pause();
	}
	return pid;
}

void say(Worker& w)
{
	int pid;

	if (sscanf(w.line.c_str(), "ready pid=%d port=%d", &pid, &w.port) != 2)
		printf("worker %d: %s\n", w.pid, w.line.c_str());
	fflush(stdout);
	w.line.clear();
}

// Takes what a worker prints; false at its end.
bool listen_to(Worker& w)
{
	char text[4096];
	ssize_t n = read(w.output, text, sizeof text);

	for (ssize_t i = 0; i < n; i++) {
		if (text[i] == '\n')
			say(w);
		else
			w.line += text[i];
	}
	return n > 0 || (n < 0 && errno == EINTR);
}

// Reaps a worker whose output has ended. Who was killed is replaced.
void bury(pid_t pid, bool ending, char** command)
{
	int status = 0;
	Worker w;

	waitpid(pid, &status, 0);
	{
		std::lock_guard<std::mutex> hold(mutex);
		w = workers[pid];
		workers.erase(pid);
	}
	close(w.output);
	if (!ending && settings.respawn == "on" && WIFSIGNALED(status))
		start_worker(w.rank, command);
}

bool all_ready()
{
	for (auto& [pid, w] : workers)
		if (!w.port)
			return false;
	return true;
}

std::string list()
{
	std::lock_guard<std::mutex> hold(mutex);
	std::string text;
	for (auto& [pid, w] : workers)
		text += std::to_string(w.rank) + " " + std::to_string(pid) + " " + std::to_string(w.port) + "\n";
	return text;
}

std::atomic<long> wanted{0}; // further workers

volatile sig_atomic_t ending = 0;
void on_end(int) { ending = 1; }

// Runs until SIGTERM, and then until the last worker has ended.
void serve(char** command, int port)
{
	bool said = false, told = false;

	while (!workers.empty()) {
		for (; wanted && !ending; wanted--)
			start_worker(settings.workers++, command);
		std::vector<pollfd> outputs;
		std::vector<pid_t> pids;
		for (auto& [pid, w] : workers) {
			outputs.push_back({w.output, POLLIN, 0});
			pids.push_back(pid);
		}
		poll(outputs.data(), outputs.size(), 20);
		if (ending && !told) {
			for (pid_t pid : pids)
				kill(pid, SIGTERM);
			told = true;
		}
		for (size_t i = 0; i < outputs.size(); i++) {
			if (!outputs[i].revents)
				continue;
			mutex.lock();
			bool more = listen_to(workers[pids[i]]);
			mutex.unlock();
			if (!more)
				bury(pids[i], ending, command);
		}
		if (!said && all_ready()) {
			printf("ready pid=%d port=%d\n", getpid(), port);
			fflush(stdout);
			said = true;
		}
	}
}

// The command behind "--", which is taken off what the options are in.
char** parse(int argc, char** argv)
{
	Options o;
	int at = 1;

	o.number("workers", &settings.workers, "processes that use a GPU");
	o.number("gpus", &settings.gpus, "simulated GPUs; worker N sees the Nth one, as its GPU 0");
	o.number("port", &settings.port, "of the HTTP server; 0: any");
	o.text("respawn", &settings.respawn, "on: workers that are killed are replaced");
	o.text("log", &settings.log, "each worker's truth log is this with .PID behind it");
	o.text("preload", &settings.preload, "the simulator, for the workers");
	while (at < argc && strcmp(argv[at], "--"))
		at++;
	o.parse(at, argv);
	if (at + 1 >= argc || settings.workers < 1 || settings.gpus < 1) {
		fprintf(stderr, "frontend: a worker's command is needed behind --\n");
		exit(2);
	}
	return argv + at + 1;
}

} // namespace

int main(int argc, char** argv)
{
	char** command = parse(argc, argv);

	signal(SIGTERM, on_end);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	pid_t tokenizer = start_tokenizer();
	for (long rank = 0; rank < settings.workers; rank++)
		start_worker(rank, command);
	{
		HttpServer http(settings.port, [](const std::string& path) -> std::string {
			if (path == "/health")
				return "ok " + std::to_string(++questions) + "\n";
			if (path == "/workers")
				return list();
			if (path == "/grow")
				return std::to_string(++wanted) + "\n";
			if (path != "/quit")
				return "";
			kill(getpid(), SIGTERM);
			return "bye\n";
		});
		serve(command, http.port());
	}
	kill(tokenizer, SIGKILL);
	waitpid(tokenizer, nullptr, 0);
	return 0;
}
