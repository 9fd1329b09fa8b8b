// A server like llama.cpp's: a thread launches the kernels of each token one by one, layer by layer, waits for the GPU,
// and samples the next token on the host. Requests begin with batches of their prompt, which have other kernels.
// It logs each step: its kind, kernels, begin and end (CLOCK_BOOTTIME), and the first kernel's number.
#include "hip_device.h"
#include "http.h"
#include "options.h"

#include <atomic>
#include <random>
#include <sys/prctl.h>

namespace {

struct Settings {
	long layers = 28, tokens = 20, sample_us = 1000, interrupt = 0, interrupt_us = 3000, split = 0, port = 0;
	std::string log, code_object;
} settings;

using Names = std::vector<const char*>;

// A step's kernels, by parts of their names.
struct Kind {
	const char* name;
	Names first, layer, last;
	unsigned blocks; // of a kernel
};

const Kind prefill{"prefill",
	{"k_get_rows"},
	{"rms_norm", "quantize_mmq", "9mul_mat_q", "rope_norm", "flash_attn_tile", "9mul_mat_q", "silu_mul"},
	{"rms_norm", "quantize_q8_1", "mul_mat_vec_q"},
	64};
const Kind decode{"decode",
	{"k_get_rows"},
	{"rms_norm", "quantize_q8_1", "mul_mat_vec_q", "rope_norm", "flash_attn_vec", "mul_mat_vec_q", "silu_mul", "add_f32"},
	{"rms_norm", "quantize_q8_1", "mul_mat_vec_q"},
	8};

std::atomic<bool> stop{false};
std::atomic<uint64_t> launched{0};

uint64_t boottime_ns()
{
	timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

class Model {
public:
	Model(const CodeObject& code) : device_(0, code), names_(code.kernels)
	{
		HIP_CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
		if (!settings.log.empty() && !(log_ = fopen(settings.log.c_str(), "w"))) {
			perror(settings.log.c_str());
			exit(1);
		}
	}
	~Model()
	{
		HIP_CHECK(hipStreamDestroy(stream_));
		if (log_)
			fclose(log_);
	}

	void serve()
	{
		HIP_CHECK(hipSetDevice(device_.ordinal));
		while (!stop) {
			for (unsigned batches = 1 + random_() % 3; batches && !stop; batches--)
				step(prefill);
			for (long tokens = settings.tokens / 2 + long(random_() % unsigned(settings.tokens)); tokens > 0 && !stop; tokens--)
				step(decode);
		}
	}

private:
	Device device_;
	const std::vector<std::string>& names_;
	hipStream_t stream_;
	FILE* log_ = nullptr;
	std::mt19937 random_;

	void step(const Kind& kind)
	{
		uint64_t first = launched + 1, begin = boottime_ns();
		launch(kind, kind.first);
		for (long layer = 0; layer < settings.layers; layer++) {
			if (settings.split && layer && layer % settings.split == 0)
				usleep(useconds_t(settings.interrupt_us));
			launch(kind, kind.layer);
		}
		launch(kind, kind.last);
		HIP_CHECK(hipStreamSynchronize(stream_));
		if (log_)
			fprintf(log_, "%s %lu %lu %lu %lu\n", kind.name, launched - first + 1, begin, boottime_ns(), first);
		if (settings.sample_us)
			usleep(useconds_t(settings.sample_us + long(random_() % unsigned(settings.sample_us))));
	}

	void launch(const Kind& kind, const Names& kernels)
	{
		for (const char* name : kernels) {
			if (settings.interrupt && random_() % unsigned(settings.interrupt) == 0)
				usleep(useconds_t(1 + random_() % unsigned(settings.interrupt_us)));
			Arguments arguments;
			arguments.id = kernarg_id(1, ++launched);
			HIP_CHECK(hipModuleLaunchKernel(find(name), kind.blocks, 1, 1, 256, 1, 1, 0, stream_, arguments.pointers, nullptr));
		}
	}

	hipFunction_t find(const char* name) const
	{
		for (size_t i = 0; i < names_.size(); i++)
			if (names_[i].find(name) != std::string::npos)
				return device_.kernels[i];
		fprintf(stderr, "no kernel %s\n", name);
		abort();
	}
};

void parse(int argc, char** argv)
{
	Options o;
	settings.code_object = beside(argv[0], "llamalike.hsaco");
	o.number("layers", &settings.layers, "of the model");
	o.number("tokens", &settings.tokens, "of a request, on average");
	o.number("sample", &settings.sample_us, "shortest pause after a step, in us; the longest is twice that");
	o.number("interrupt", &settings.interrupt, "a pause before one of so many kernels, as of a thread that waits for a processor; 0: none");
	o.number("interrupt-us", &settings.interrupt_us, "longest such pause, and each pause of --split");
	o.number("split", &settings.split, "a pause after each so many layers of a step; 0: none");
	o.number("port", &settings.port, "of /health and /quit; 0: any");
	o.text("log", &settings.log, "where the steps go");
	o.text("code-object", &settings.code_object, "kernels");
	o.parse(argc, argv);
}

} // namespace

int main(int argc, char** argv)
{
	parse(argc, argv);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // as yama would otherwise refuse a tool that is no ancestor
	CodeObject code(settings.code_object);
	HttpServer http(settings.port, [](const std::string& path) -> std::string {
		if (path == "/health")
			return "ok " + std::to_string(launched) + "\n";
		if (path != "/quit")
			return "";
		stop = true;
		return "bye\n";
	});
	{
		Model model(code);
		printf("ready pid=%d port=%d\n", getpid(), http.port());
		fflush(stdout);
		model.serve();
	}
	printf("{\"threads\":[{\"id\":1,\"count\":%lu}],\"total\":%lu}\n", launched.load(), launched.load());
	return 0;
}
