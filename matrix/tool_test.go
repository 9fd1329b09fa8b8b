package matrix

// Group D.
var tool = []row{}
