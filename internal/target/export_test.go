package target

// WithoutPageMap leaves t as a kernel without page maps would have it.
func (t *Target) WithoutPageMap() {
	_ = t.space.Close()
	t.space = nil
}
