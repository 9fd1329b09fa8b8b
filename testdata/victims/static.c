/* static.c: no dynamic loader, no injection. */
#include <stdio.h>

int main(void)
{
	puts("ready");
	fflush(stdout);
	return getchar();
}
