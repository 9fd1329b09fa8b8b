-- What the threads of a process did beside its GPUs, as the kernel told the recorder
-- (--sample, --sched). The tool writes these rows itself: nothing in the process does.

-- A time in which threads were observed, and what is missing in it.
CREATE TABLE IF NOT EXISTS rtl_cpu_window(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	begun_ns INTEGER NOT NULL,
	ended_ns INTEGER,                  -- NULL: still observed, or the recorder was killed
	method_id INTEGER NOT NULL,        -- rocpd_string: bpf, perf (no scheduling), memory (Python only)
	cpu_hz INTEGER NOT NULL,           -- samples a second of a running thread; 0: none
	wall_hz INTEGER NOT NULL,          -- samples a second of each thread, running or not; 0: none
	scheduling INTEGER NOT NULL,       -- 1: rtl_cpu_wait has the waits
	least_wait_ns INTEGER NOT NULL,    -- shorter waits are only counted, in rtl_cpu_thread
	detail_id INTEGER                  -- rocpd_string: what could not be observed, and why; NULL: nothing
);

-- A lock of the process, by where it is in its memory: a thread that waits in futex(2) (rtl_cpu_wait.syscall is
-- 202) at an address in these bytes (argument0) waits for it.
CREATE TABLE IF NOT EXISTS rtl_cpu_lock(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	kind INTEGER NOT NULL,             -- 0: the global interpreter lock of a Python interpreter
	address INTEGER NOT NULL,
	bytes INTEGER NOT NULL
);

-- Events that are missing, by cause (ring full, limit of stacks, ...).
CREATE TABLE IF NOT EXISTS rtl_cpu_loss(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	cause_id INTEGER NOT NULL,         -- rocpd_string
	events INTEGER NOT NULL
);

-- A thread's waits that were shorter than least_wait_ns, and its own totals.
CREATE TABLE IF NOT EXISTS rtl_cpu_thread(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER NOT NULL,        -- rtl_thread
	short_waits INTEGER NOT NULL,
	short_ns INTEGER NOT NULL
);

-- A place in code. The name is empty where no symbol is known.
CREATE TABLE IF NOT EXISTS rtl_cpu_frame(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	kind INTEGER NOT NULL,             -- 0: native, 1: Python, 2: kernel
	name_id INTEGER NOT NULL,          -- rocpd_string: function (Python: the qualified name)
	file_id INTEGER NOT NULL,          -- rocpd_string: source file if the line is known, else the ELF file
	line INTEGER,                      -- NULL: not known
	offset INTEGER,                    -- native: in the ELF file's addresses; NULL: not known
	object_id INTEGER                  -- rocpd_string: native: the ELF file; NULL: not known
);

-- A node of the tree of stacks: a frame, called from its parent. A stack is its innermost node.
CREATE TABLE IF NOT EXISTS rtl_cpu_stack(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	parent_id INTEGER,                 -- rtl_cpu_stack, always a smaller id; NULL: the outermost frame
	frame_id INTEGER NOT NULL,
	cut INTEGER NOT NULL               -- 1: what has called the outermost frame is not known
);

-- What a thread was at when a clock ticked.
CREATE TABLE IF NOT EXISTS rtl_cpu_sample(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER NOT NULL,
	time_ns INTEGER NOT NULL,
	clock INTEGER NOT NULL,            -- 0: cpu, 1: wall
	state INTEGER NOT NULL,            -- 0: ran user code, 1: ran in the kernel, 2: did not run (wall)
	processor INTEGER,
	stack_id INTEGER                   -- NULL: not known
);

-- A time in which a thread did not run. It was blocked from out_ns to woken_ns and ready from
-- woken_ns to in_ns; if it was preempted, ready from out_ns on.
CREATE TABLE IF NOT EXISTS rtl_cpu_wait(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER NOT NULL,
	out_ns INTEGER NOT NULL,           -- the window's begun_ns: it did not run before, either
	woken_ns INTEGER,                  -- NULL: preempted, or not woken until the window's end
	in_ns INTEGER,                     -- NULL: it did not run again until the window's end
	state INTEGER NOT NULL,            -- 0: preempted, else the kernel's task state (1: interruptible, 2: uninterruptible)
	syscall INTEGER,                   -- number of the system call it waited in; NULL: none (a fault, an interrupt)
	argument0 INTEGER,                 -- of the system call
	argument1 INTEGER,
	waker_thread_id INTEGER,           -- rtl_thread: a thread of this process woke it
	waker_pid INTEGER,                 -- another process, as rtl_session.pid; NULL: not known (a timer, an interrupt)
	waker_tid INTEGER,                 -- its thread: as rtl_thread.tid if its waits were recorded then, else as waker_pid
	stack_id INTEGER                   -- with which it stopped running; NULL: not known
);
