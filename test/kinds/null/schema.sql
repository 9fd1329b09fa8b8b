
-- Calls of hsa_system_get_info.
CREATE TABLE IF NOT EXISTS rtl_null_call(
	id INTEGER PRIMARY KEY,
	session_id INTEGER NOT NULL,
	thread_id INTEGER,
	time_ns INTEGER NOT NULL,
	attribute INTEGER NOT NULL         -- hsa_system_info_t
);
