//go:build rtlfault

package all

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/test/kinds/null"
)

// testKinds exist only in the tool and the payload that the tests build.
var testKinds = []*kind.Kind{null.Kind}
