/* loader.h: what the dynamic loader tells debuggers, and lies about it. */
#pragma once
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* loaders_debug looks _r_debug up in the loader itself. */
static inline struct r_debug *loaders_debug(void)
{
	const struct link_map *l = _r_debug.r_map;
	const ElfW(Sym) *sym = NULL;
	const char *names = NULL;

	while (l && !strstr(l->l_name, "ld-linux"))
		l = l->l_next;
	if (!l)
		die("ld-linux");
	for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			sym = (const ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			names = (const char *)d->d_un.d_ptr;
	}
	for (; (const char *)sym < names; sym++) /* the names come behind the symbols */
		if (strcmp(names + sym->st_name, "_r_debug") == 0)
			return (struct r_debug *)(l->l_addr + sym->st_value);
	die("_r_debug");
	return NULL;
}

/* After its relocation the loader's data is read-only. */
static inline void point_to(struct r_debug *debug, const void *at)
{
	int fd = open("/proc/self/mem", O_WRONLY);

	if (pwrite(fd, &at, sizeof at, (off_t)&debug->r_map) != sizeof at)
		die("write r_map");
	close(fd);
}
