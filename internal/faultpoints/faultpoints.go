// Package faultpoints names the steps of the payload at which a test can make its test
// build fail, hang, or kill (payload/src/core/fault.h).
package faultpoints

import "slices"

// First are passed by an attach that finds no payload, before those of Arming.
var First = []string{"block", "thread"}

// Arming are passed by every attach, in this order.
var Arming = []string{
	"find", "hold", "pool", "handoff", "signals", "names", "queues", "memory", "ring", "worker", "patch", "grace", "ready",
}

// Copies is passed by an attach that records copies; what has been done by then cannot
// fail.
const Copies = "profiled"

// Disarming are passed by every detach, in this order.
var Disarming = []string{"close", "copies", "unprofiled", "drain", "deliver", "stopped", "unpatched"}

// Refusing are the steps of a detach that can fail; the others can only be cut short.
var Refusing = []string{"close", "copies"}

// Attach are all steps of a first attach.
func Attach() []string { return slices.Concat(First, Arming, []string{Copies}) }

// All are all steps.
func All() []string { return slices.Concat(Attach(), Disarming) }
