// Package faultpoints names the steps of the payload at which a test can make its test
// build fail, hang, or kill (payload/src/core/fault.h).
package faultpoints

import "slices"

// First lists the steps of an attach that finds no payload, before the steps in Arming.
var First = []string{"block", "thread"}

// Arming lists the steps of every attach, in this order.
var Arming = []string{
	"find", "hold", "pool", "handoff", "signals", "names", "queues", "memory", "ring", "worker", "patch", "grace", "ready",
}

// Copies is a step of an attach that records copies; the steps before it cannot fail any more.
const Copies = "profiled"

// Disarming lists the steps of every detach, in this order.
var Disarming = []string{"close", "copies", "unprofiled", "drain", "deliver", "stopped", "unpatched"}

// Refusing lists the steps of a detach that can fail; the others can only be interrupted.
var Refusing = []string{"close", "copies"}

// Attach lists all steps of a first attach.
func Attach() []string { return slices.Concat(First, Arming, []string{Copies}) }

// Beginning is a step of each window of a schedule: the hooks are in place, and its time has come.
const Beginning = "begin"

// All lists all steps of a recording without a schedule.
func All() []string { return slices.Concat(Attach(), Disarming) }
