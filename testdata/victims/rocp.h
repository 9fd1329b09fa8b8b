/*
 * rocp.h: the interface between ROCm's runtimes, librocprofiler-register.so and rocprofiler-sdk, as
 * rocprofiler-register publishes it. Debian has the first library only in experimental, and no
 * rocprofiler-sdk: test doubles stand in for both.
 */
#ifndef ROCP_H
#define ROCP_H

#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

enum rocp_status {
	ROCP_REG_SUCCESS = 0,
	ROCP_REG_NO_TOOLS = 1,
	ROCP_REG_BAD_API_TABLE_LENGTH = 3,
	ROCP_REG_ROCPROFILER_ERROR = 6,
	ROCP_REG_INVALID_ARGUMENT = 8,
	ROCP_REG_ATTACHMENT_NOT_AVAILABLE = 9,
};

struct rocp_id {
	uint64_t handle;
};

typedef int (*rocp_register_fn)(const char *name, uint32_t (*import)(void), uint32_t version, void **tables,
				uint64_t tables_n, struct rocp_id *id);

/* librocprofiler-register.so */
EXPORTED int rocprofiler_register_library_api_table(const char *name, uint32_t (*import)(void), uint32_t version,
						    void **tables, uint64_t tables_n, struct rocp_id *id);
EXPORTED int rocprofiler_register_attach(const char *environment, const char *tool);
EXPORTED int rocprofiler_register_detach(void);

/* librocprofiler-sdk-attach.so */
EXPORTED int rocprofiler_attach_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables,
					      uint64_t tables_n, rocp_register_fn);

/* librocprofiler-sdk.so */
EXPORTED int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables,
				       uint64_t tables_n);
EXPORTED int rocprofiler_attach(void);
EXPORTED int rocprofiler_detach(void);

#endif
