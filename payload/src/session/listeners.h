/* listeners.h: libraries that want to hear of sessions (include/rtl/tables.h). */
#ifndef RTL_LISTENERS_H
#define RTL_LISTENERS_H

#include <rtl/tables.h>

#include "core/sys.h"

#define LISTENERS_MOST_NS NS_PER_S
#define LISTENERS_END_MOST_NS (200 * NS_PER_MS) /* while a thread of the application ends the runtime */

/* With the session's lock: calls the listeners of all loaded objects on a thread of its own, and waits for them, for that time at
 * most. RTL_TABLES_RESTORED without an RTL_TABLES_WILL_PATCH before does nothing. */
void listeners_call(enum rtl_tables_event event, uint64_t most_ns);

#endif
