package target

// WithoutPageMap leaves t as a kernel without page maps would have it.
func (t *Target) WithoutPageMap() {
	_ = t.space.Close()
	t.space = nil
}

// WhenOpenWaits makes Open call do before it waits for another tool's stop to end.
func WhenOpenWaits(do func()) { waitsForTool = do }
