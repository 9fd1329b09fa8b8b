package function

// Text and Outs are for the tests.
var (
	Text = text
	Outs = outs
)
