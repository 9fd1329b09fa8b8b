package matrix

// Group E.
var environment = []row{}
