/* main.c: got_test. A fixed executable: hipStop's address is that of a stub of its own. */
#include <stdio.h>
#include <string.h>

#include "got.h"

#ifdef TABLE
int main(int argc, char **argv) { return argc == 2 ? table_test(argv[1]) : 2; }
#else
static void (*volatile taken)(uint64_t);

static void program(void)
{
	hipStart("");
	taken = hipStop;
	taken(0);
	hipStop(0);
}

int main(int argc, char **argv) { return argc == 2 ? got_test(argv[1], program) : 2; }
#endif
