/*
 * kernels.c: prints each kernel when the GPU has run it.
 *
 *   kernels CODE-OBJECT KERNEL COUNT
 */
#include <hip/hip_runtime_api.h>
#include <rtl/rtl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(hipError_t e, const char *what)
{
	if (e == hipSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, hipGetErrorString(e));
	exit(1);
}

/* On the library's thread, when the kernel has ended. Its strings are valid in here only. */
static void print_kernel(const rtl_record_t *record, void *user)
{
	const rtl_dispatch_record_t *d = (const rtl_dispatch_record_t *)record;
	unsigned *kernels = user;

	if (d->reason)
		printf("%lu packets without times: %s\n", (unsigned long)d->count, rtl_reason_text(d->reason));
	else
		printf("kernel gpu %d queue %#lx packet %lu %lu..%lu %s\n", d->gpu, (unsigned long)d->queue, (unsigned long)d->index,
		       (unsigned long)d->start_ns, (unsigned long)d->end_ns, d->kernel);
	*kernels += d->count;
}

static void print_copy(const rtl_record_t *record, void *user)
{
	const rtl_copy_record_t *c = (const rtl_copy_record_t *)record;

	(void)user;
	printf("copy of %lu bytes, gpu %d to gpu %d, %lu ns\n", (unsigned long)c->bytes, c->from_gpu, c->to_gpu,
	       (unsigned long)(c->end_ns - c->start_ns));
}

static void print_loss(const rtl_record_t *record, void *user)
{
	(void)user;
	printf("lost %lu records\n", (unsigned long)((const rtl_lost_record_t *)record)->count);
}

static void launch(const char *code_object, const char *kernel, int count)
{
	hipModule_t module;
	hipFunction_t function;
	hipStream_t stream;
	unsigned long values[8] = {0};
	void *arguments[8], *memory;

	for (int i = 0; i < 8; i++)
		arguments[i] = &values[i];
	check(hipModuleLoad(&module, code_object), code_object);
	check(hipModuleGetFunction(&function, module, kernel), kernel);
	check(hipStreamCreate(&stream), "hipStreamCreate");
	check(hipMalloc(&memory, 1 << 20), "hipMalloc");
	check(hipMemset(memory, 1, 1 << 20), "hipMemset");
	for (int i = 0; i < count; i++)
		check(hipModuleLaunchKernel(function, 8, 1, 1, 256, 1, 1, 0, stream, arguments, NULL), kernel);
	check(hipStreamSynchronize(stream), "hipStreamSynchronize");
	check(hipFree(memory), "hipFree");
	check(hipStreamDestroy(stream), "hipStreamDestroy");
	check(hipModuleUnload(module), "hipModuleUnload");
}

int main(int argc, char **argv)
{
	unsigned kernels = 0;
	char why[256];

	if (argc != 4) {
		fprintf(stderr, "usage: %s CODE-OBJECT KERNEL COUNT\n", argv[0]);
		return 2;
	}
	check(hipInit(0), "hipInit");

	rtl_set_callback(RTL_RECORD_DISPATCH, print_kernel, &kernels, NULL);
	rtl_set_callback(RTL_RECORD_MEMORY_COPY, print_copy, NULL, NULL);
	rtl_set_callback(RTL_RECORD_LOST, print_loss, NULL, NULL);
	if (rtl_start(NULL)) {
		rtl_error_text(why, sizeof why);
		fprintf(stderr, "not recorded: %s\n", why);
		return 1;
	}
	launch(argv[1], argv[2], atoi(argv[3]));
	rtl_shutdown(); /* no callback runs after this: kernels may go out of scope */

	printf("%u kernels\n", kernels);
	return 0;
}
