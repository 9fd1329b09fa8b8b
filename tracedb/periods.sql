-- The windows of a schedule (--delay, --collection-period, --schedule), recorded or not: each recorded
-- one is a session. Between them nothing was recorded, and the process ran as without the tool.
CREATE TABLE IF NOT EXISTS rtl_period(
	id INTEGER PRIMARY KEY,
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,      -- as rtl_session.start_ticks
	session_id INTEGER,                -- NULL: not recorded
	number INTEGER NOT NULL,           -- in the schedule, from 0
	periods INTEGER NOT NULL,          -- rows of windows that were not recorded stand for several
	clock TEXT NOT NULL,               -- of the schedule: boottime, realtime, monotonic, cputime
	planned_start_ns INTEGER,          -- on CLOCK_BOOTTIME; NULL: not known before. It began at rtl_session.armed_ns
	planned_end_ns INTEGER,            -- NULL: not known before, or none
	reason TEXT                        -- why it was not recorded
);
