package matrix

// Group G.
var payload = []row{}
