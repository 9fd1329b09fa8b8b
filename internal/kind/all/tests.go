//go:build rtlfault

package all

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/test/kinds/null"
)

// testKinds are in the tests' tool only, as their halves are in the tests' payload.
var testKinds = []*kind.Kind{null.Kind}
