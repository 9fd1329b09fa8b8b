
-- The trigger of the flight recorder that has made the trace of a session. Such a session is a part of
-- a longer recording: its declared window begins at from_ns. What is older was not kept, and is not
-- lost. A queue's window that was open at from_ns begins there, and stays open at the end.
CREATE TABLE IF NOT EXISTS rtl_trigger(
	session_id INTEGER PRIMARY KEY,
	number INTEGER NOT NULL,           -- of the recording, from 1
	expression TEXT NOT NULL,          -- as the user wrote it, or what has asked for the trace
	value TEXT NOT NULL,               -- that fired it; may be empty
	fired_ns INTEGER NOT NULL,
	from_ns INTEGER NOT NULL,          -- the records are complete from here on
	limited_by TEXT NOT NULL,          -- why not from earlier: time (--keep-last), size (--keep-size), start (of the session)
	older INTEGER NOT NULL,            -- records of the session that were older than the kept ones
	ignored INTEGER NOT NULL           -- further times that triggers fired since the trigger before this one
);
