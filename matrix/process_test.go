package matrix

// Group B.
var process = []row{}
