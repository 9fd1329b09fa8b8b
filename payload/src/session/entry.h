/* entry.h: the payload's exported functions (docs/abi.md). */
#ifndef RTL_ENTRY_H
#define RTL_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

struct rtl_status;
struct rtl_tables;

int rtl_attach(const void *env, uint64_t len);
int rtl_reattach(const void *env, uint64_t len);
int rtl_detach(void);
int rtl_status(struct rtl_status *out);
const struct rtl_tables *rtl_tables(uint32_t version); /* include/rtl/tables.h */

/* The interface of HSA_TOOLS_LIB (hsa_api_trace.h). */
bool OnLoad(void *table, uint64_t runtime_version, uint64_t failed_tool_count, const char *const *failed_tool_names);
void OnUnload(void);

#endif
