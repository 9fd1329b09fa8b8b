-- At which rate the GPUs took packets (dispatches, barriers) from the queues of a process, before its recording, meanwhile
-- and afterwards: the change of the queues' read indexes, which the tool read from outside.
CREATE TABLE IF NOT EXISTS rtl_rate(
	id INTEGER PRIMARY KEY,
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,      -- as rtl_session.start_ticks
	begun_ns INTEGER NOT NULL,         -- of the measurement: the same in all rows of one recording
	phase TEXT NOT NULL,               -- before, during, after
	from_ns INTEGER,                   -- of the packets; NULL: not measured
	until_ns INTEGER,
	packets INTEGER NOT NULL,
	uncertainty REAL NOT NULL,         -- of packets per second: half of the interval in which they are with 95 %
	reason TEXT                        -- why there is no rate; NULL: there is one
);
