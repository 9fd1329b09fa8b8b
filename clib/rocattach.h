/*
 * rocattach.h: librtl-rocattach.so has the functions of AMD's librocprofiler-sdk-rocattach.so and of its
 * predecessor librocprofv3-attach.so, and its files bear their names: a program that is written for these records
 * with rtl-attach instead, in processes that were not prepared for it.
 *
 * An attach starts the command rtl-attach, which records until the detach, or until this process ends. Options are
 * AMD's environment variables (ROCPROF_MEMORY_COPY_TRACE=1, ROCPROF_OUTPUT_PATH, …; docs/guide/from-a-program.md). With
 * ROCPROF_ATTACH_TOOL_LIBRARY it attaches that tool of AMD's, by rocprofiler-register's protocol.
 *
 * The library prints nothing. The functions may be called from any thread; they wait for each other.
 */
#ifndef RTL_ROCATTACH_H
#define RTL_ROCATTACH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rocattach_status_t {
	ROCATTACH_STATUS_SUCCESS = 0,
	ROCATTACH_STATUS_ERROR,
	ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT,
	ROCATTACH_STATUS_ERROR_NOT_SUPPORTED,
	ROCATTACH_STATUS_ERROR_PTRACE_ERROR,
	ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED, /* also: traced by another process, no such process */
	ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND,
	ROCATTACH_STATUS_LAST,
} rocattach_status_t;

typedef struct rocattach_version_triplet_t {
	uint32_t major, minor, patch;
} rocattach_version_triplet_t;

/* Attaches to a process, or to it and the GPU-using processes below it; returns when it records. */
rocattach_status_t rocattach_attach(int pid);
rocattach_status_t rocattach_attach_tree(int pid);

/* Ends the recording; returns when its files are complete. 0: of all processes. */
rocattach_status_t rocattach_detach(int pid);
rocattach_status_t rocattach_detach_tree(int pid);

/* The same, with the names of ROCm 7.0 and 7.1: detach() ends what attach() has begun last. */
void attach(uint32_t pid);
void detach(void);

rocattach_status_t rocattach_get_version(uint32_t *major, uint32_t *minor, uint32_t *patch);
rocattach_status_t rocattach_get_version_triplet(rocattach_version_triplet_t *info);
const char *rocattach_get_status_name(rocattach_status_t status);
const char *rocattach_get_status_string(rocattach_status_t status);

/* The text of the last error, of any thread; "": none. It is rtl-attach's own function. */
const char *rtl_rocattach_error(void);

#ifdef __cplusplus
}
#endif
#endif
