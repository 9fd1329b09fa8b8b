/* rocm.h: a mapping that makes a process a ROCm process at first sight. */
#pragma once
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void look_like_rocm(void)
{
	char dir[] = "/tmp/hostileXXXXXX", name[64];
	int fd;

	if (!mkdtemp(dir))
		exit(1);
	snprintf(name, sizeof name, "%s/libhsa-runtime64.so.1", dir);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, 4096) || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		exit(1);
	unlink(name);
	rmdir(dir);
}
