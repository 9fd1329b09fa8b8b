package attach

import (
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// Observer receives the events of a recording. Several goroutines call its methods. Texts are English, without
// line ends; the target may have chosen parts of them: make them safe before you print them.
type Observer = session.GroupObserver

// Progress has the live figures of a recording: dispatches with and without times, lost records, bytes.
type Progress = collector.Progress

// Error is an error with a checked cause, a fix, and the state in which the target is.
type Error = failure.Error

// ExitCode classifies an error or a result; rtl-attach exits with it.
type ExitCode = failure.ExitCode

// Exit codes.
const (
	OK             = failure.OK
	Failed         = failure.Failed
	Usage          = failure.Usage
	NotPermitted   = failure.NotPermitted
	Unsuitable     = failure.Unsuitable
	TargetExited   = failure.TargetExited
	Remains        = failure.Remains
	NothingSeen    = failure.NothingSeen
	SomeFailed     = failure.SomeFailed
	RecordsMissing = failure.RecordsMissing // only Result.Strict returns it
	EndedEarly     = failure.EndedEarly     // only Result.Strict returns it
)

// observer passes everything on, and notes when the session is attached.
type observer struct {
	Observer
	session *Session
	once    sync.Once
}

func (o *observer) note() { o.once.Do(func() { close(o.session.attached) }) }

func (o *observer) Attached(how string, threads int, paused time.Duration) {
	if o.Observer != nil {
		o.Observer.Attached(how, threads, paused)
	}
	o.note()
}

func (o *observer) AllAttached(facts string) {
	if o.Observer != nil {
		o.Observer.AllAttached(facts)
	}
	o.note()
}

func (o *observer) Preflight(facts string) {
	if o.Observer != nil {
		o.Observer.Preflight(facts)
	}
}

func (o *observer) Recording(elapsed, total time.Duration, p Progress, traceBytes uint64) {
	if o.Observer != nil {
		o.Observer.Recording(elapsed, total, p, traceBytes)
	}
}

func (o *observer) Triggered(what string) {
	if o.Observer != nil {
		o.Observer.Triggered(what)
	}
}

func (o *observer) Detaching(why string, expected bool) {
	if o.Observer != nil {
		o.Observer.Detaching(why, expected)
	}
}

func (o *observer) Detached(how string) {
	if o.Observer != nil {
		o.Observer.Detached(how)
	}
}

func (o *observer) Warn(text string) {
	if o.Observer != nil {
		o.Observer.Warn(text)
	}
}

func (o *observer) Debug(text string) {
	if o.Observer != nil {
		o.Observer.Debug(text)
	}
}

func (o *observer) PassedOver(who string) {
	if o.Observer != nil {
		o.Observer.PassedOver(who)
	}
}

func (o *observer) Joined(facts string) {
	if o.Observer != nil {
		o.Observer.Joined(facts)
	}
}

func (o *observer) Failed(f *Error) {
	if o.Observer != nil {
		o.Observer.Failed(f)
	}
}
