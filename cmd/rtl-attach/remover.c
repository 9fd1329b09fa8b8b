/*
 * remover.c: `rtl-attach remove-when-closed NAME DIRECTORY` waits until descriptor 3, a pipe, is
 * closed, and then removes the file NAME in the directory of descriptor 4, and the directory
 * (internal/launch/remover.go). It has no rights but its user's, and dies of no signal but SIGKILL.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drop_all_capabilities(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {0};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capset, &head, none))
		_exit(1);
}

static void wait_for_close(int fd)
{
	char c;
	ssize_t n;

	do
		n = read(fd, &c, 1);
	while (n > 0 || (n < 0 && errno == EINTR));
}

__attribute__((constructor)) static void remove_when_closed(int argc, char **argv)
{
	sigset_t all;

	if (argc != 4 || strcmp(argv[1], "remove-when-closed"))
		return;
	drop_all_capabilities();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "rtl-remover", 0, 0, 0);
	wait_for_close(3);
	if (unlinkat(4, argv[2], 0) && errno != ENOENT)
		_exit(1);
	_exit(rmdir(argv[3]) ? 1 : 0);
}
