package matrix

// Group F.
var binaries = []row{}
