//go:build !rtlfault

package all

import "github.com/rtl-attach/rtl-attach/internal/kind"

var testKinds []*kind.Kind
