package stuck

// readTSC returns the processor's time-stamp counter, with which a payload stamps claims.
func readTSC() uint64
