/* launch.h: a program that `rtl-attach run` has started waits for its recorder before it can
 * use a GPU (docs/decisions/0026-a-started-program-waits-once.md). */
#ifndef RTL_LAUNCH_H
#define RTL_LAUNCH_H

#include <stdbool.h>

/* In OnLoad: the first call of hsa_iterate_agents waits until the recorder lets it go on. Does
 * nothing in a process that the tool has not started. */
void launch_prepare(void);

/* With the runtime held: the program has initialized it, and no thread waits yet. A session that began now could be too late
 * for the program's first kernels. */
bool launch_is_due(void);

/* Before a session patches its own hooks: takes this one away. A thread that waits goes on
 * waiting. */
void launch_restore_hook(void);

/* The thread waits in our code, called by the application outside of any function that an
 * arming waits for. */
bool launch_is_waiting(int tid);

#endif
