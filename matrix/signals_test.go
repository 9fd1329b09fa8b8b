package matrix

// Group C.
var signals = []row{}
