package graphs

// For the tests of package graphs_test, which import what imports this package.
var (
	InMemory    = inMemory
	InFiles     = inFiles
	ErrDisorder = errDisorder
)

// Room is how many steps are held in memory.
const Room = room
